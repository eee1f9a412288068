//! Says that a request's `requestState` can be trusted.

/// In the extensions of a request: a layer above vouches for `requestState` in both directions.
///
/// What comes in is what a handler of this server gave, for this request of this caller; what a handler gives is
/// protected on its way out. [`RequestStateLayer`](crate::layers::RequestStateLayer) puts it there on each request that
/// may be answered by asking for input; a layer of your own that protects states does the same. Without it the
/// dispatcher takes no state and gives none, unless it is
/// [told to](crate::dispatch::Builder::with_unprotected_request_state).
///
/// Specification: `basic/patterns/mrtr`, "Server Requirements".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrustedState;
