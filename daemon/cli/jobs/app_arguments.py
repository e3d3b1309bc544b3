"""How `stoker submit` tells its own flags from the application's: by where they stand, as spark-submit."""

import sys
from typing import Any

from stoker.characters import visible
from typer.core import TyperCommand


class SubmitCommand(TyperCommand):
    """Pass arguments after an application to the application; after a job file, parse them as flags.

    A `--` begins the application's arguments in any case, and is not one of them.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click; says on stderr which of the application's arguments look like flags of ours."""
        from daemon.cli.shared.job_file import is_job_file

        ctx.allow_interspersed_args = False
        parser = self.make_parser(ctx)
        given, before, _ = parser.parse_args(args=list(args))
        target = given.get("target") or (before[0] if before else None)
        if not isinstance(target, str):
            return super().parse_args(ctx, args)
        if is_job_file(target):
            ctx.allow_interspersed_args = True
            return super().parse_args(ctx, args)
        rest = list(given.get("arguments") or ())
        own = args[: len(args) - len(rest)]
        if rest[:1] == ["--"]:
            del rest[0]
        else:
            self._say_whose(ctx, target, rest)
        # Behind `--` all is positional, even options.
        flags, positional = own[:-1], own[-1:]
        if flags[-1:] == ["--"]:
            del flags[-1]
        return super().parse_args(ctx, [*flags, "--", *positional, *rest])

    def _say_whose(self, ctx: Any, target: str, arguments: list[str]) -> None:
        ours = {flag for param in self.get_params(ctx) for flag in param.opts if flag.startswith("-")}
        if found := [text for text in arguments if text.partition("=")[0] in ours]:
            told = f"{', '.join(found)}: passed to the application, since it comes after {target}"
            print(f"stoker: {visible(told)}; put options of stoker before it", file=sys.stderr)
