"""Properties that are computed when they are first read, without a lock."""

from __future__ import annotations

import functools
from typing import Any, Self, TypeVar, overload

_T_co = TypeVar("_T_co", covariant=True)


class cached_property(functools.cached_property[_T_co]):  # noqa: N801 (the name under which it is known)
    """A property whose value is stored in the object when it is first read, as with `functools.cached_property`.

    In Python 3.11 that one holds a lock of the class while it computes. A process that is forked while another thread
    holds it waits for it forever, and threads wait for each other's objects. Here several threads may compute the value
    at the same time; the first that is stored is the value for all of them. So the computation must not change anything.
    """

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
