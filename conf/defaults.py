"""Default assumptions about jobs of unknown behaviour: for files, simulations and policies alike."""

#: Seconds that a job takes. Chosen: about what one of the paper's sizes does (see profiles/data/paper.yaml).
UNKNOWN_DURATION = 240.0
#: Standard deviation of the logarithm of durations of which nothing is known: their tail is heavy.
UNKNOWN_SPREAD = 2.0
#: How many times longer a job takes where it is not placed as its type prefers (Islam 2022, 7.1).
BAD_PLACEMENT_FACTOR = 1.3

#: Standard deviation of the logarithm of real over expected duration. Measured: the root mean square of those
#: of five types of Spark jobs (docs/results/fidelity.md).
MEASURED_SPREAD = 0.08

#: What share of what an executor has done is done again when it is lost, and when it was drained first.
#: Measured of two apps (docs/elastic.md): all and a twentieth of it, and nothing. About the mean, to be safe.
REWORK_LOST, REWORK_DRAINED = 0.5, 0.05
#: A drained executor has got its blocks to others within so many seconds. Chosen.
DRAIN_SECONDS = 30.0
#: A job that is expected to take more than so many times its length on spot VMs never ends there. Chosen: at
#: a third of the price nothing that takes three times as long is worth it, and rates are known within a
#: factor of two.
NEVER = 20.0
#: How far policies in a simulation err about how often spot VMs are taken away and what is done again then:
#: the standard deviation of the logarithm. Assumed: clouds publish rates in steps of about a factor of two.
SPOT_ERROR = 0.5

#: Where a job belongs that names no queue.
DEFAULT_QUEUE = "default"

#: Which Spark runs a job that names none, where the config names no other.
DEFAULT_SPARK = "4.3"

#: How much what a job takes of the cluster counts where its size is chosen and nobody waits; the rest is its
#: own time. Chosen: both alike.
RESOURCE_WEIGHT = 0.5
