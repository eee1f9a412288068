//! What layers know about tools.

use std::sync::Arc;

use http::Extensions;

use crate::protocol::mirror::ParamHeaders;

/// Tells layers what is known about a tool.
pub trait ToolCatalog: Send + Sync + 'static {
    /// What is known about the tool `name`, for a request with these `extensions`.
    fn tool(&self, name: &str, extensions: &Extensions) -> Option<Arc<ToolFacts>>;
}

/// What is known about a tool.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolFacts {
    /// Which arguments are mirrored into headers.
    pub param_headers: ParamHeaders,
}

impl ToolFacts {
    /// What a tool's schema says.
    #[must_use]
    pub fn new(param_headers: ParamHeaders) -> Self {
        Self { param_headers }
    }
}
