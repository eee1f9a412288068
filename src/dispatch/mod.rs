//! The service that produces the answers.

pub mod subscriptions;
