"""`kraft completion`: the script with which a shell completes the command's words."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from kraft.cli.command import COMPLETION_VARIABLE, kraft

SHELLS: Final = ("bash", "zsh", "fish")


@kraft.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that completes commands and options.

    \b
    bash:  eval "$(kraft completion bash)"              in ~/.bashrc
    zsh:   eval "$(kraft completion zsh)"               in ~/.zshrc
    fish:  kraft completion fish | source               in ~/.config/fish/config.fish
    """
    completion_class = get_completion_class(shell)
    assert completion_class is not None, f"click has no completion for {shell}"
    click.echo(completion_class(kraft, {}, "kraft", COMPLETION_VARIABLE).source())
