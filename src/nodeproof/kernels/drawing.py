"""Loops that place nodes in the plane: linked ones attract each other, all repel each other."""

from nodeproof.kernels.primitives import compiled

__all__ = ["spread_nodes"]


@compiled
def spread_nodes(indptr, indices, positions, rounds, most_pulls, pushes, gravity, seed):
    """Move nodes to their neighbours and away from random nodes, in ever smaller steps.

    The forces are those of LargeVis and UMAP for the kernel ``1 / (1 + d²)``. In a round, a node is
    pulled by at most `most_pulls` of its neighbours, and pushed by `pushes` nodes for each of them.
    """
    n = len(positions)
    state = seed
    for k in range(rounds):
        rate = 1.0 - k / rounds
        for u in range(n):
            first, degree = indptr[u], indptr[u + 1] - indptr[u]
            pulls = min(degree, most_pulls)
            for j in range(pulls):
                at = first + j
                if degree > most_pulls:
                    # A congruential generator: the lower bits of its state are not random.
                    state = (state * 1103515245 + 12345) % 2147483648
                    at = first + (state >> 7) % degree
                v = indices[at]
                dx = positions[v, 0] - positions[u, 0]
                dy = positions[v, 1] - positions[u, 1]
                pull = rate / (1.0 + dx * dx + dy * dy)
                positions[u, 0] += pull * dx
                positions[u, 1] += pull * dy
                positions[v, 0] -= pull * dx
                positions[v, 1] -= pull * dy
            for _ in range(pushes * max(pulls, 1)):
                state = (state * 1103515245 + 12345) % 2147483648
                v = (state >> 7) % n
                dx = positions[u, 0] - positions[v, 0]
                dy = positions[u, 1] - positions[v, 1]
                squared = dx * dx + dy * dy
                push = rate * 2.0 / ((0.01 + squared) * (1.0 + squared))
                # No step is longer than the distance between two linked nodes at rest.
                push = min(push, rate * 2.0 / (0.1 + squared**0.5))
                positions[u, 0] += push * dx
                positions[u, 1] += push * dy
            positions[u, 0] -= rate * gravity * positions[u, 0]
            positions[u, 1] -= rate * gravity * positions[u, 1]
