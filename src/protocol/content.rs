//! What tools, prompts and resources say: content blocks and what belongs to them.

use std::borrow::Cow;

use base64_simd::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Text of a wire type: borrowed if it is known when the program is built, owned otherwise.
pub type Text = Cow<'static, str>;

/// Who speaks, or whom something is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person, or the program that acts for one.
    User,
    /// The model.
    Assistant,
}

/// Whom a block is for, how much it matters and when it last changed.
///
/// Specification: `server/resources`, "Annotations".
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Whom it is for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Role>,
    /// How much it matters, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// When it last changed, in the form of ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<Text>,
}

/// One block of a tool's result or of a prompt's message.
///
/// Specification: `server/tools`, "Tool Result".
///
/// ```
/// use mcp_layers::protocol::Content;
///
/// let block = Content::image([1, 2, 3], "image/png");
/// assert_eq!(
///     serde_json::to_string(&block)?,
///     r#"{"type":"image","data":"AQID","mimeType":"image/png"}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Content {
    #[serde(flatten)]
    block: Block,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Annotations>,
    #[serde(rename = "_meta", skip_serializing_if = "Map::is_empty")]
    meta: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: Text,
    },
    Image {
        data: Text,
        #[serde(rename = "mimeType")]
        mime_type: Text,
    },
    Audio {
        data: Text,
        #[serde(rename = "mimeType")]
        mime_type: Text,
    },
    Resource {
        resource: ResourceContents,
    },
    ResourceLink(ResourceLink),
}

impl Content {
    fn new(block: Block) -> Self {
        Self { block, annotations: None, meta: Map::new() }
    }

    /// Text.
    #[must_use]
    pub fn text(text: impl Into<Text>) -> Self {
        Self::new(Block::Text { text: text.into() })
    }

    /// An image, given as its bytes.
    #[must_use]
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<Text>) -> Self {
        Self::new(Block::Image { data: STANDARD.encode_to_string(bytes).into(), mime_type: mime_type.into() })
    }

    /// Sound, given as its bytes.
    #[must_use]
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<Text>) -> Self {
        Self::new(Block::Audio { data: STANDARD.encode_to_string(bytes).into(), mime_type: mime_type.into() })
    }

    /// A resource's contents, embedded.
    #[must_use]
    pub fn resource(resource: ResourceContents) -> Self {
        Self::new(Block::Resource { resource })
    }

    /// A pointer to a resource that the client can read.
    #[must_use]
    pub fn resource_link(link: ResourceLink) -> Self {
        Self::new(Block::ResourceLink(link))
    }

    /// The same with annotations.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        self.annotations = Some(annotations);
        self
    }

    /// The same with one more member of `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }

    /// The text, if the block is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.block {
            Block::Text { text } => Some(text),
            _ => None,
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&'static str> for Content {
    fn from(text: &'static str) -> Self {
        Self::text(text)
    }
}

/// A pointer to a resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceLink {
    /// Where the resource is.
    pub uri: Text,
    /// Its name for programs.
    pub name: Text,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Text>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// Its media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<Text>,
}

impl ResourceLink {
    /// A pointer with the two members that it must have.
    #[must_use]
    pub fn new(uri: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self { uri: uri.into(), name: name.into(), title: None, description: None, mime_type: None }
    }
}

/// The contents of a resource, or of one part of it.
///
/// Specification: `server/resources`, "Resource Contents".
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceContents {
    uri: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob: Option<Text>,
    #[serde(rename = "_meta", skip_serializing_if = "Map::is_empty")]
    meta: Map<String, Value>,
}

impl ResourceContents {
    /// Text.
    #[must_use]
    pub fn text(uri: impl Into<Text>, text: impl Into<Text>) -> Self {
        Self { uri: uri.into(), mime_type: None, text: Some(text.into()), blob: None, meta: Map::new() }
    }

    /// Anything else, given as its bytes.
    #[must_use]
    pub fn blob(uri: impl Into<Text>, bytes: impl AsRef<[u8]>) -> Self {
        let blob = Some(STANDARD.encode_to_string(bytes).into());
        Self { uri: uri.into(), mime_type: None, text: None, blob, meta: Map::new() }
    }

    /// The same with a media type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<Text>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// The same with one more member of `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromptMessage {
    role: Role,
    content: Content,
}

impl PromptMessage {
    /// What the user says.
    #[must_use]
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// What the assistant says.
    #[must_use]
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// A picture that stands for a server, a tool, a prompt or a resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Icon {
    /// Where it is: an `https:` or a `data:` URI.
    pub src: Text,
    /// Its media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<Text>,
    /// Its sizes, such as `48x48` or `any`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Text>,
}

/// Who may be served a stored result.
///
/// Specification: `server/utilities/caching`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheScope {
    /// Everyone.
    Public,
    /// Only the caller who was given it.
    #[default]
    Private,
}
