//! Prompts, and completion of their arguments.

use mcp_layers::dispatch::{Builder, CompletionRequest, Context, HandlerError, Prompt, PromptArgument};
use mcp_layers::protocol::{Content, PromptMessage, ResourceContents};

use crate::content::PIXEL;

pub(crate) fn add_to(server: Builder) -> Builder {
    server.prompt(simple()).prompt(with_arguments()).prompt(with_resource()).prompt(with_image())
}

fn simple() -> Prompt {
    Prompt::new("test_simple_prompt", |_, _| async {
        Ok(PromptMessage::user("This is a simple prompt for testing."))
    })
    .with_description("A prompt without arguments")
}

fn with_arguments() -> Prompt {
    let first =
        PromptArgument::required("arg1").with_description("First test argument").with_completion(suggest);
    let second = PromptArgument::required("arg2").with_description("Second test argument");
    Prompt::new("test_prompt_with_arguments", |arguments, _| async move {
        // Required arguments are known to be there.
        let [first, second] = ["arg1", "arg2"].map(|name| arguments.get(name).unwrap_or_default());
        Ok(PromptMessage::user(format!("Prompt with arguments: arg1='{first}', arg2='{second}'")))
    })
    .with_argument(first)
    .with_argument(second)
    .with_description("A prompt with arguments")
}

/// Suggests words that begin with what the user has typed.
async fn suggest(request: CompletionRequest, _: Context) -> Result<Vec<String>, HandlerError> {
    let words = ["paris", "park", "party", "test", "testing"];
    Ok(words.into_iter().filter(|word| word.starts_with(&request.value)).map(str::to_owned).collect())
}

fn with_resource() -> Prompt {
    let uri = PromptArgument::required("resourceUri").with_description("URI of the resource to embed");
    Prompt::new("test_prompt_with_embedded_resource", |arguments, _| async move {
        let uri = arguments.get("resourceUri").unwrap_or_default().to_owned();
        let resource = ResourceContents::text(uri, "Embedded resource content for testing.");
        Ok(vec![
            PromptMessage::user(Content::resource(resource.with_mime_type("text/plain"))),
            PromptMessage::user("Please process the embedded resource above."),
        ])
    })
    .with_argument(uri)
    .with_description("A prompt that embeds a resource")
}

fn with_image() -> Prompt {
    Prompt::new("test_prompt_with_image", |_, _| async {
        Ok(vec![
            PromptMessage::user(Content::image(PIXEL, "image/png")),
            PromptMessage::user("Please analyze the image above."),
        ])
    })
    .with_description("A prompt with an image")
}
