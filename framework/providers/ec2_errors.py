"""Translation of EC2's errors: the kind of each, and a remedy, in words."""

from collections.abc import Mapping

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError
from stoker.characters import visible

from framework.providers.interface import ProviderError, Refusal

_LONGEST = 300
_KINDS: Mapping[str, Refusal] = {
    "InsufficientInstanceCapacity": "capacity",
    "InsufficientHostCapacity": "capacity",
    "InsufficientReservedInstanceCapacity": "capacity",
    "InsufficientCapacity": "capacity",
    "InsufficientFreeAddressesInSubnet": "capacity",
    "SpotMaxPriceTooLow": "capacity",
    "InstanceLimitExceeded": "quota",
    "VcpuLimitExceeded": "quota",
    "MaxSpotInstanceCountExceeded": "quota",
    "VolumeLimitExceeded": "quota",
    "MaxIOPSLimitExceeded": "quota",
    "PendingVerification": "quota",
    "ResourceLimitExceeded": "quota",
    # The lease is open with other properties than this request's: it can be found by its tags.
    "IdempotentParameterMismatch": "unavailable",
}
#: Errors that other requests would get, too: nothing is wrong with this one.
_NOT_THE_REQUEST = frozenset(
    {
        "RequestLimitExceeded", "Throttling", "ThrottlingException", "RequestThrottled", "SlowDown",
        "InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout",
    }
)  # fmt: skip
#: Why the operator's credentials are not taken.
_CREDENTIALS = frozenset(
    {
        "AuthFailure", "UnauthorizedOperation", "InvalidClientTokenId", "ExpiredToken", "RequestExpired",
        "ExpiredTokenException", "SignatureDoesNotMatch", "OptInRequired", "Blocked", "AccessDenied",
        "UnrecognizedClientException", "MissingAuthenticationToken",
    }
)  # fmt: skip


def refusal(error: BotoCoreError | ClientError) -> ProviderError:
    """The ProviderError for an error of EC2, for the caller that wanted a VM."""
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        why = "no credentials for EC2: boto3 finds them in the environment, ~/.aws, or the instance's role"
        return ProviderError("unavailable", f"{why} ({error})")
    if not isinstance(error, ClientError):
        return ProviderError("unavailable", f"EC2 does not answer: {_shown(error)}")
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _CREDENTIALS:
        return ProviderError("unavailable", f"EC2 rejects the credentials: {_shown(error)}")
    if code in _NOT_THE_REQUEST or (code not in _KINDS and status >= 500):
        return ProviderError("unavailable", f"EC2 is busy or has failed: {_shown(error)}")
    return ProviderError(_KINDS.get(code, "invalid"), _shown(error))


def _shown(error: Exception) -> str:
    text = " ".join(visible(str(error)).split()).removeprefix("An error occurred ")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
