"""Properties that are computed when they are first read, without a lock."""

from __future__ import annotations

import functools
from typing import Any, Self, TypeVar, overload

_T_co = TypeVar("_T_co", covariant=True)


def state_at_once(self: object) -> Any:
    """What `object.__getstate__` gives, with copies of what may grow: the attributes, and properties that are dicts."""
    state: Any = object.__getstate__(self)
    if isinstance(state, tuple):  # the attributes and the slots
        return _copied(self, state[0]), state[1]
    return _copied(self, state)


def _copied(owner: object, attributes: dict[str, Any] | None) -> dict[str, Any] | None:
    if attributes is None:
        return None
    copied = dict(attributes)
    for name, value in copied.items():
        if type(value) is dict and isinstance(getattr(type(owner), name, None), cached_property):
            copied[name] = dict(value)
    return copied


def state_without(self: object, *names: str) -> dict[str, Any]:
    """The attributes of an object without slots, except these, which are made again."""
    return {name: value for name, value in state_at_once(self).items() if name not in names}


class cached_property(functools.cached_property[_T_co]):  # noqa: N801 (the name under which it is known)
    """A property whose value is stored in the object when it is first read, as with `functools.cached_property`.

    In Python 3.11 that one holds a lock of the class while it computes. A process that is forked while another thread
    holds it waits for it forever, and threads wait for each other's objects. Here several threads may compute the value
    at the same time; the first that is stored is the value for all of them. So the computation must not change anything.

    An object may be copied or pickled while another thread stores a value in it: its class gets a ``__getstate__`` that
    takes the values that are there at one moment. A class with one of its own begins it with `state_at_once`.
    """

    def __set_name__(self, owner: type[Any], name: str) -> None:
        super().__set_name__(owner, name)
        if getattr(owner, "__getstate__") is object.__getstate__:  # noqa: B009, the types know it as a method only
            setattr(owner, "__getstate__", state_at_once)  # noqa: B010

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> _T_co: ...

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Self | _T_co:
        if instance is None:
            return self
        name, values = self.attrname, instance.__dict__
        assert name is not None, "a cached property belongs to a class"
        if name in values:
            stored: _T_co = values[name]
            return stored
        value = self.func(instance)
        known = getattr(type(instance), name)
        if known is not self and isinstance(known, cached_property):
            return value  # part of the value of a subclass, which is stored instead
        first: _T_co = values.setdefault(name, value)
        return first
