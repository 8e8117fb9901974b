"""The command ``rowcast policy``: explains the server's decision on a right."""

from typing import Annotated, Final
from urllib.parse import quote

import typer

from rowcast.core.errors import Code, Error
from rowcast.core.topics import is_pattern
from rowcast.features.rights.explain import ACTIONS, PATH
from rowcast.program.commands.server import UrlOption, client_of
from rowcast_client.calls import topic_path

REFUSED: Final = 3
"""The exit code of a denied right."""

policy = typer.Typer(
    name="policy",
    help="Explain whether a user may do something, and which rule decides.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@policy.callback()
def _common() -> None:
    """Keep ``explain`` a subcommand, although it is the only one."""


@policy.command()
def explain(
    user: Annotated[str, typer.Argument(help="The user's name.")],
    action: Annotated[str, typer.Argument(help=f"One of {', '.join(ACTIONS)}.")],
    topic: Annotated[str, typer.Argument(help="A topic or a topic filter.")],
    url: UrlOption = None,
) -> None:
    """Print whether a user may do something, and which rule decides.

    The exit code is 3 if it may not.

    Example: rowcast policy explain ben read Dog/1
    """
    with client_of(url) as client:
        path = topic_path(f"{PATH}/{user}/{action}" + ("" if is_pattern(topic) else f"/{topic}"))
        if is_pattern(topic):
            path += f"?filter={quote(topic, safe='')}"
        answer = client.request("GET", path).json()
    if not isinstance(answer, dict):
        raise Error(Code.INTERNAL, "the server's answer is none; is it a Rowcast of this version?")
    print(f"{'yes' if answer['allowed'] else 'no'}: {answer['because']}")
    if not answer["allowed"]:
        raise typer.Exit(REFUSED)
