//! The words of MCP: revisions, methods, header names, error codes and the rules for mirrored values.

mod capability;
mod challenge;
pub mod code;
mod content;
pub mod header;
mod log_level;
pub mod meta;
pub mod method;
pub mod mirror;
mod revision;
mod scope;

pub use capability::{ClientCapabilities, ExtensionId, InvalidExtensionId, required_server_capability};
pub use challenge::Challenge;
pub use content::{
    Annotations, CacheScope, Content, Icon, IconTheme, PromptMessage, ResourceContents, ResourceLink, Role,
    Text,
};
pub use log_level::LogLevel;
pub use revision::{Era, Revision};
pub use scope::{InvalidScope, Scopes};

pub(crate) use scope::check_scope;
