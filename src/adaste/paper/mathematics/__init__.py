"""The paper's mathematics as pure functions in float64, each tested against a second way to compute the same thing.

Nothing here takes part in training; docs/mathematics.md tells the story and says which equation is which function.

    relaxation      the relaxed objective L, its local model Q, and the spacing with the steepest slope
    mirror          the update as the chain rule at a shifted point, and as mirror descent
    drift           what mini-batch noise does to the printed rule, in closed form and by simulation
    illustrations   the paper's figures 1 and 2 as data
    drawings        all of it as pictures (needs matplotlib)
"""
