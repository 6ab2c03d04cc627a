"""The family `released`: every method as its published scripts behave, compressed to the length that is asked for.

Sources, in `adaste.paper.families`: the AdaSTE repository for its two rows and, with the paper's appendix, BayesBiNN;
md-bnn for MD and BinaryConnect; pmf for PMF and full precision; the ProxQuant repository. What they do at a share of
their run happens here at the same share; in a run of few steps, averages of gradients move faster by its `pace`. All
parameters are binary (biases, too), 5,000 of the CIFAR images are held out. Known differences from the scripts:

- AdaSTE's and BayesBiNN's momentum is without bias correction (the first twenty steps), their learning rate falls
  within epochs, not between them, and statistics of BatchNorm for rounded weights come from batches of their own
  before a test.
- PMF is in both codes, with different Jacobians: `pmf` is the script of pmf, `pmf-md-bnn` the form of md-bnn's code.
- md-bnn and pmf: beta grows at every step instead of every few hundred; biases start at zero; CIFAR-100 is normalised
  with its own constants. Latents of two levels start at (-x, x) with their x; what they have in common does nothing.
- Rates of md-bnn and pmf are those under the torch they ask for, 0.4. From 1.1 on the same scripts drop the rate right
  after the first step, too, so that all of the run has one drop more.
- Unstable mirror descent multiplies steps by a beta that grows: old steps fade against new ones, and what it remembers
  shrinks with the run. A compressed run is noisier than the script's, not only shorter.
- Networks compute in bfloat16, those of the scripts in float32.
- ProxQuant's scripts know other networks only, train on 50,000 images and start from a trained network: here images are
  held out as for all others, and the first 40 % of the run have no pull. Its optimizer keeps its state between epochs.
"""

from types import MappingProxyType

from adaste.estimators import SoftmaxMirror, TanhMirror
from adaste.paper.families.adaste import adaste, adaste_annealed, bayes_binn
from adaste.paper.families.family import Family, Make
from adaste.paper.families.md_bnn import binary_connect, full_precision, mirror_descent, pmf, pmf_of_md_bnn
from adaste.paper.families.md_bnn_hyperparameters import MD_SOFTMAX, MD_SOFTMAX_S, MD_TANH, MD_TANH_S
from adaste.paper.families.ours import with_mixup
from adaste.paper.families.prox_quant import prox_quant

_MAKERS: dict[str, Make] = {
    "full-precision": full_precision,
    "binaryconnect": binary_connect,
    "proxquant": prox_quant,
    "pmf": pmf,
    "pmf-md-bnn": pmf_of_md_bnn,
    "md-softmax": mirror_descent(SoftmaxMirror(), stable=False, tuned=MD_SOFTMAX),
    "md-softmax-s": mirror_descent(SoftmaxMirror(), stable=True, tuned=MD_SOFTMAX_S),
    "md-tanh": mirror_descent(TanhMirror(), stable=False, tuned=MD_TANH),
    "md-tanh-s": mirror_descent(TanhMirror(), stable=True, tuned=MD_TANH_S),
    "bayesbinn": bayes_binn,
    "bayesbinn-mixup": with_mixup(bayes_binn),
    "adaste": adaste,
    "adaste-mixup": with_mixup(adaste),
    "adaste-annealed": adaste_annealed,
    "adaste-annealed-mixup": with_mixup(adaste_annealed),
}

RELEASED = Family(
    name="released",
    about="Every method as its published scripts behave: their networks, rates and 45,000 images.",
    epochs=500,
    makers=MappingProxyType(_MAKERS),
)
