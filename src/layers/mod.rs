//! Layers that say yes or no to a request, or change what passes.
