"""The paper's mathematics as pure functions in float64, each tested against a second way to compute the same thing.

Nothing here takes part in training; docs/mathematics.md tells the story and says which equation is which function.

    relaxation      the relaxed objective L, its local model Q and the minimiser of Q
    chain_rule      where a finite difference of tanh looks at its derivative
    mirror          AdaSTE as mirror descent with a metric that depends on the data
    steepest        the spacing with the steepest slope for mu alpha < 1
    drift           what mini-batch noise does to the printed rule, in closed form
    one_weight      the same by simulation, one weight at a time
    illustrations   the data of the paper's figures 1 and 2
    drawings        all of it as pictures (needs matplotlib)
"""
