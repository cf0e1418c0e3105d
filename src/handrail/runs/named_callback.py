"""A callback by its name, `module:function`: that is how it gets to the process of a run.

Learning happens in other processes, maybe on other machines, where only names arrive. What the name
does not lead to is found out before anything is learned.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, final

from handrail.errors import HandrailError, InvalidArgument
from handrail.learning import Learner, Record, Seconds

Callback = Callable[[Learner, Record, Seconds], bool | None]


@final
@dataclass(frozen=True)
class NamedCallback:
    """Called after every episode as `callback(agent, record, seconds)`; False ends the learning.

    Attributes:
        module: that has it.
        function: of the module.
    """

    module: str
    function: str

    @classmethod
    def of(cls, text: str) -> NamedCallback:
        """`module:function`, found and looked at."""
        module, separator, function = text.partition(":")
        if not (module and separator and function):
            raise InvalidArgument(
                f"--callback {text}: expected module:function, such as my_logging:after_episode."
            )
        named = cls(module, function)
        named.load()
        return named

    def __str__(self) -> str:
        return f"{self.module}:{self.function}"

    def load(self) -> Callback:
        """The function; refused if there is none, or if it cannot be called so."""
        try:
            module = import_module(self.module)
        except Exception as error:  # whatever the user's module does
            raise InvalidArgument(f"--callback {self}: {type(error).__name__}: {error}.") from error
        if not hasattr(module, self.function):
            near = get_close_matches(self.function, dir(module), n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise InvalidArgument(
                f"--callback {self}: {self.module} has no function {self.function}.{meant}"
            )
        found: Any = getattr(module, self.function)
        if not callable(found):
            raise InvalidArgument(
                f"--callback {self}: {self.function} is of type {type(found).__name__}, which "
                "cannot be called. Name a function of (agent, record, seconds)."
            )
        _refuse_other_arguments(found, str(self))
        callback: Callback = found
        return callback

    def __call__(self, agent: Learner, record: Record, seconds: Seconds) -> bool | None:
        """After an episode; what it raises ends the learning, in words."""
        try:
            return self.load()(agent, record, seconds)
        except HandrailError:
            raise
        except Exception as error:  # whatever the user's function does
            raise InvalidArgument(
                f"--callback {self} raised {type(error).__name__} after episode "
                f"{record.episode}: {error}. What was learned up to there is kept: mend it, and go "
                "on with `handrail resume`."
            ) from error


def _refuse_other_arguments(function: Callable[..., Any], name: str) -> None:
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError as error:
        raise InvalidArgument(
            f"--callback {name} is called as {name.partition(':')[2]}(agent, record, seconds), "
            f"but {error}."
        ) from error
    except ValueError:
        pass  # something built in, which does not say what it takes
