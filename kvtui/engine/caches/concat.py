"""The reference cache of the tutorial: ``torch.cat`` grows K and V by one token a step.

Every step allocates the whole cache anew and copies it, which is what preallocation avoids; it
is here to be compared with.
"""

import torch
from torch import Tensor

from kvtui.engine.caches.contiguous import ContiguousCache
from kvtui.engine.page_kernels import Pages


class ConcatCache(ContiguousCache):
    """K ``[B, Hkv, t, Dk]`` and V ``[B, Hkv, t, Dv]``, reallocated at every append.

    ``capacity`` is the prompt's length; the storage is never longer than what it holds.
    """

    name = "concat"
    ragged = False

    def pages(self) -> Pages | None:
        """Nothing: a page would be of another length every step."""
        return None

    def append(self, k: Tensor, v: Tensor) -> None:
        """Allocate one token more and copy everything."""
        held_k, held_v = self.views()
        self._k = torch.cat((held_k, k), dim=2)
        self._v = torch.cat((held_v, v), dim=2)
        self.seen += 1

    def rewind(self) -> None:
        """Drop the last token; the storage shrinks with it."""
        super().rewind()
        self._k, self._v = (view.clone() for view in self.views())
