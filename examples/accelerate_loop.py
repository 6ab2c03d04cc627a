"""The ten lines with Hugging Face's accelerate: on a CPU, on one GPU, or on several with `accelerate launch`."""

import torch
from accelerate import Accelerator
from ten_lines import digits, network
from torch.nn.functional import cross_entropy

import adaste


def main(epochs: int = 20) -> float:
    # Accelerate would step a scheduler once for each process: this one counts steps of the optimizer.
    accelerator = Accelerator(step_scheduler_with_optimizer=False)
    loader, images, labels = digits()
    model, loader = accelerator.prepare(network(), loader)
    own = accelerator.unwrap_model(model)
    # After prepare: the weights are on their device, and the loader has the batches of this process alone.
    optimizer, scheduler = adaste.setup(own, steps=epochs * len(loader))
    optimizer, scheduler = accelerator.prepare(optimizer, scheduler)
    for _ in range(epochs):
        for inputs, targets in loader:
            accelerator.backward(cross_entropy(model(inputs), targets))
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    model.eval()
    with optimizer.optimizer.binarized(own, statistics_from=loader), torch.no_grad():  # accelerate wraps it
        right = model(images.to(accelerator.device)).argmax(1) == labels.to(accelerator.device)
    accelerator.print(f"{100 * right.double().mean():.1f} % with one bit per weight")
    return 100 * right.double().mean().item()


if __name__ == "__main__":
    main()
