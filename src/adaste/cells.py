"""One parameter of an optimizer with all that belongs to it."""

from dataclasses import replace
from typing import Any, NamedTuple, cast

from torch import Tensor, nn

from adaste.estimators import Estimator
from adaste.shards import first_element, local
from adaste.stepping import Job, Method


class Cell(NamedTuple):
    """One parameter with all that belongs to it."""

    slot: int
    name: str
    group: int
    weight: nn.Parameter
    state: dict[str, Any]

    @property
    def moves(self) -> bool:
        return self.weight.grad is not None

    @property
    def grad(self) -> Tensor:
        """The gradient of a weight that moves, dense: those of embeddings may be sparse."""
        grad = local(cast("Tensor", self.weight.grad))
        return grad.to_dense() if grad.is_sparse else grad

    @property
    def latent(self) -> nn.Parameter:
        return cast("nn.Parameter", self.state["latent"])

    def method(self, method: Method) -> Method:
        """A method with the random numbers of this parameter."""
        return replace(method, estimator=method.estimator.on_parameter(self.slot, first_element(self.weight)))

    def job(self, moment: int, grad: Tensor, norm: Tensor | None) -> Job:
        """Its part of a step."""
        return Job(
            group=self.group,
            moment=moment,
            weight=local(self.weight),
            grad=grad,
            latent=local(self.latent),
            owner=self.latent,
            average=local(self.state["average"]) if "average" in self.state else None,
            mass=self.state.get("mass"),
            norm=norm,
        )

    def exported(self, estimator: Estimator) -> Tensor:
        """The weights of this parameter as they would be exported."""
        weight, latent = local(self.weight), local(self.latent)
        return estimator.binarize(latent, weight.to(latent.dtype)).to(weight.dtype)
