"""The brain: order, place and pilots of pods; gate release; the kube-scheduler extender."""
