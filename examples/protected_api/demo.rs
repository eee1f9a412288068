//! What there is to try: printed as commands, or run one after the other with what each of them shows.

use http::{Request, StatusCode};
use serde_json::{Value, json};

use crate::http::{BoxError, HttpClient, Reply};
use crate::inventory::Inventory;
use crate::issuer::Issuer;
use crate::tools::{ADMIN, ORDER, READ};

/// Somebody with a token.
struct Person {
    name: &'static str,
    token: String,
    scopes: String,
}

pub(crate) struct Demo {
    url: String,
    issuer: String,
    inventory_url: String,
    inventory: Inventory,
    client: HttpClient,
    /// Reads.
    rita: Person,
    /// Reads and orders.
    omar: Person,
    /// Administers.
    ada: Person,
    /// A good token of the same issuer for another server.
    elsewhere: String,
}

/// One request to the MCP server.
#[derive(Clone)]
struct Call {
    headers: Vec<(String, String)>,
    body: Value,
}

impl Call {
    fn new(method: &str, params: Value) -> Self {
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
        ];
        let mut headers: Vec<_> = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let target = params["name"].as_str().or(params["uri"].as_str());
        headers.extend(target.map(|target| ("Mcp-Name".to_owned(), target.to_owned())));
        let mut body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        body["params"]["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        Self { headers, body }
    }

    fn tool(name: &str, arguments: Value) -> Self {
        Self::new("tools/call", json!({"name": name, "arguments": arguments}))
    }

    fn list() -> Self {
        Self::new("tools/list", json!({}))
    }

    fn read(uri: &str) -> Self {
        Self::new("resources/read", json!({ "uri": uri }))
    }

    /// Adds a header, in the place of one of that name.
    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn by(self, person: &Person) -> Self {
        self.header("Authorization", &format!("Bearer {}", person.token))
    }

    fn can(mut self, capabilities: Value) -> Self {
        self.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        self
    }

    /// The second round: the user has said yes.
    fn confirmed(mut self, state: &str) -> Self {
        let params = &mut self.body["params"];
        params["requestState"] = state.into();
        params["inputResponses"] = json!({"confirm": {"action": "accept", "content": {"sure": true}}});
        self
    }

    fn curl(&self, url: &str) -> String {
        let mut parts = vec![format!("curl -si {url}")];
        parts.extend(self.headers.iter().map(|(name, value)| format!("-H '{name}: {value}'")));
        parts.push(format!("-d '{}'", self.body));
        parts.join(" \\\n    ")
    }
}

/// Counts what went as expected, and prints it.
#[derive(Default)]
struct Report {
    passed: usize,
    failed: usize,
}

impl Report {
    /// `expected` is the status, and the JSON-RPC error code if there is to be one.
    fn line(&mut self, what: &str, reply: &Reply, expected: (u16, Option<i64>), shows: &str, holds: bool) {
        let found = (reply.status.as_u16(), reply.body["error"]["code"].as_i64());
        let code = found.1.map_or_else(String::new, |code| code.to_string());
        let right = found == expected && holds;
        let mark = if right { "ok  " } else { "FAIL" };
        println!("  {mark}  {:<3} {code:>6}  {what:<58} {shows}", found.0);
        if right {
            self.passed += 1;
        } else {
            self.failed += 1;
            println!("        expected {expected:?}, got {found:?}: {}", reply.body);
        }
    }
}

impl Demo {
    pub(crate) fn new(
        url: String,
        issuer: &Issuer,
        inventory_url: String,
        inventory: Inventory,
    ) -> Result<Self, BoxError> {
        let person = |name, scopes: &[&str]| -> Result<Person, BoxError> {
            let scopes = scopes.join(" ");
            Ok(Person { name, token: issuer.token(&url, name, &scopes)?, scopes })
        };
        Ok(Self {
            rita: person("rita", &[READ])?,
            omar: person("omar", &[READ, ORDER])?,
            ada: person("ada", &[ADMIN])?,
            elsewhere: issuer.token("http://127.0.0.1:9/other", "rita", READ)?,
            client: HttpClient::new(),
            issuer: issuer.url().to_owned(),
            url,
            inventory_url,
            inventory,
        })
    }

    fn metadata_url(&self) -> String {
        self.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
    }

    /// A short table of where everything is, and commands to paste.
    pub(crate) fn print_commands(&self) {
        println!("MCP server   {}", self.url);
        println!("metadata     {}", self.metadata_url());
        println!("issuer       {}", self.issuer);
        println!("inventory    {}/items   (internal: no protection at all)\n", self.inventory_url);
        for person in [&self.rita, &self.omar, &self.ada] {
            println!("{:<5} may {}\n{}\n", person.name, person.scopes, person.token);
        }
        let order = Call::tool("order", json!({"sku": "LAMP-1", "quantity": 2}));
        let commands = [
            ("401: where to get a token", Call::list()),
            ("200: rita sees the tools that she may use", Call::list().by(&self.rita)),
            ("200: one item", Call::tool("item", json!({"sku": "LAMP-1"})).by(&self.rita)),
            ("403: which scope an order takes", order.clone().by(&self.rita)),
            ("200: omar has it", order.by(&self.omar)),
            ("200: read from the cache the second time", Call::read("inventory://catalogue").by(&self.rita)),
        ];
        for (shows, call) in commands {
            println!("# {shows}\n{}\n", call.curl(&self.url));
        }
        println!("`--demo` runs these and more by itself. Ctrl-C ends the server.");
    }

    async fn send(&self, call: &Call) -> Result<Reply, BoxError> {
        let mut request = Request::post(&self.url);
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        self.client.send(request.body(call.body.to_string())?).await
    }

    /// Runs everything.
    ///
    /// # Errors
    /// If something does not go as expected, or a server cannot be reached.
    pub(crate) async fn run(&self) -> Result<(), BoxError> {
        let mut report = Report::default();
        println!("      HTTP  code  {:<58} what it shows", "request");
        println!("\n Who calls");
        self.who_calls(&mut report).await?;
        println!("\n What they may do");
        self.what_they_may_do(&mut report).await?;
        println!("\n What is kept, and for whom");
        self.what_is_kept(&mut report).await?;
        println!("\n What has to fit together");
        self.what_has_to_fit(&mut report).await?;
        println!("\n Asked before it is done");
        self.asked_before(&mut report).await?;
        println!("\n{} of {} as expected", report.passed, report.passed + report.failed);
        if report.failed > 0 { Err("the demo did not go as expected".into()) } else { Ok(()) }
    }

    async fn who_calls(&self, report: &mut Report) -> Result<(), BoxError> {
        let reply = self.client.send(Request::get(self.metadata_url()).body(String::new())?).await?;
        let holds = reply.body["authorization_servers"] == json!([self.issuer]);
        report.line(
            "GET the metadata of the resource",
            &reply,
            (200, None),
            "clients find the issuer",
            holds,
        );

        let reply = self.send(&Call::list()).await?;
        let challenge =
            reply.headers.get("www-authenticate").map_or("", |value| value.to_str().unwrap_or(""));
        let holds = challenge.contains(&self.metadata_url()) && !challenge.contains("error=");
        report.line(
            "tools/list without a token",
            &reply,
            (401, Some(401)),
            "the challenge names the metadata",
            holds,
        );

        let call = Call::list().header("Authorization", &format!("Bearer {}", self.elsewhere));
        let reply = self.send(&call).await?;
        let holds = reply.headers["www-authenticate"].to_str()?.contains("invalid_token");
        report.line(
            "tools/list with a token for another server",
            &reply,
            (401, Some(401)),
            "tokens are for one server",
            holds,
        );

        let mut forged = self.rita.token.clone();
        let last = forged.pop();
        forged.push(if last == Some('A') { 'Q' } else { 'A' });
        let reply = self.send(&Call::list().header("Authorization", &format!("Bearer {forged}"))).await?;
        report.line(
            "tools/list with a forged token",
            &reply,
            (401, Some(401)),
            "signatures are checked",
            true,
        );

        let call = Call::list().by(&self.rita).header("Origin", "https://evil.example");
        let reply = self.send(&call).await?;
        report.line(
            "tools/list from a web page elsewhere",
            &reply,
            (403, Some(403)),
            "no DNS rebinding",
            true,
        );
        Ok(())
    }

    async fn what_they_may_do(&self, report: &mut Report) -> Result<(), BoxError> {
        for (person, expected) in [
            (&self.rita, &["stock", "item"][..]),
            (&self.omar, &["stock", "item", "order"]),
            (&self.ada, &["stock", "item", "delete_item"]),
        ] {
            let reply = self.send(&Call::list().by(person)).await?;
            let names: Vec<_> = reply.body["result"]["tools"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|tool| &tool["name"])
                .collect();
            let what = format!("tools/list by {}", person.name);
            report.line(
                &what,
                &reply,
                (200, None),
                &format!("shows {}", expected.join(", ")),
                names == expected,
            );
        }
        let item = Call::tool("item", json!({"sku": "LAMP-1"}));
        let reply = self.send(&item.clone().by(&self.rita)).await?;
        let holds = reply.body["result"]["structuredContent"]["stock"] == 12;
        report.line("tools/call item by rita", &reply, (200, None), "12 lamps, from the database", holds);

        let order = Call::tool("order", json!({"sku": "LAMP-1", "quantity": 2}));
        let reply = self.send(&order.clone().by(&self.rita)).await?;
        let challenge = reply.headers["www-authenticate"].to_str()?;
        let holds = challenge.contains("insufficient_scope") && challenge.contains(ORDER);
        report.line(
            "tools/call order by rita",
            &reply,
            (403, Some(403)),
            "the challenge names the scope",
            holds,
        );

        let reply = self.send(&order.by(&self.omar)).await?;
        report.line("tools/call order by omar", &reply, (200, None), "ordered", ordered(&reply));

        let reply = self.send(&item.by(&self.rita)).await?;
        let holds = reply.body["result"]["structuredContent"]["stock"] == 10;
        report.line("tools/call item by rita", &reply, (200, None), "10 lamps are left", holds);

        let reply =
            self.send(&Call::tool("order", json!({"sku": "CHAIR-7", "quantity": 50})).by(&self.omar)).await?;
        let holds = reply.body["result"]["isError"] == true
            && reply.body["result"]["content"][0]["text"] == "only 3 of CHAIR-7 are left";
        report.line(
            "tools/call order of too many by omar",
            &reply,
            (200, None),
            "an error that the model can read",
            holds,
        );

        let reply =
            self.send(&Call::tool("order", json!({"sku": "../x", "quantity": 0})).by(&self.omar)).await?;
        let holds = reply.body["result"]["isError"] == true;
        report.line(
            "tools/call order of nonsense by omar",
            &reply,
            (200, None),
            "the schema is enforced",
            holds,
        );

        let reply = self.send(&Call::tool("burn", json!({})).by(&self.omar)).await?;
        report.line(
            "tools/call of an unknown tool",
            &reply,
            (400, Some(-32602)),
            "no challenge for what is not there",
            true,
        );

        let prompt = Call::new("prompts/get", json!({"name": "restock", "arguments": {"warehouse": "lyon"}}));
        let reply = self.send(&prompt.by(&self.rita)).await?;
        let holds = reply.body["result"]["messages"][0]["content"]["text"].to_string().contains("lyon");
        report.line("prompts/get restock by rita", &reply, (200, None), "a prompt to start from", holds);
        Ok(())
    }

    async fn what_is_kept(&self, report: &mut Report) -> Result<(), BoxError> {
        let catalogue = Call::read("inventory://catalogue");
        let before = self.inventory.requests();
        for person in [&self.rita, &self.omar, &self.ada] {
            let reply = self.send(&catalogue.clone().by(person)).await?;
            let asked = self.inventory.requests() - before;
            let what = format!("resources/read the catalogue by {}", person.name);
            let shows = format!("public: {asked} request to the inventory so far");
            report.line(&what, &reply, (200, None), &shows, asked == 1);
        }
        let mine = Call::read("inventory://orders/mine");
        let before = self.inventory.requests();
        for (person, orders) in [(&self.omar, 1), (&self.omar, 1), (&self.rita, 0)] {
            let reply = self.send(&mine.clone().by(person)).await?;
            let asked = self.inventory.requests() - before;
            let what = format!("resources/read their own orders by {}", person.name);
            let text = reply.body["result"]["contents"][0]["text"].as_str().unwrap_or_default();
            let found: Vec<Value> = serde_json::from_str(text)?;
            let shows = format!("private: {orders} orders, {asked} requests so far");
            let right = if person.name == "omar" { 1 } else { 2 };
            report.line(&what, &reply, (200, None), &shows, (found.len(), asked) == (orders, right));
        }
        let before = self.inventory.requests();
        let reply =
            self.send(&Call::tool("order", json!({"sku": "DESK-2", "quantity": 1})).by(&self.omar)).await?;
        report.line(
            "tools/call order by omar",
            &reply,
            (200, None),
            "tells the cache what has changed",
            ordered(&reply),
        );
        let reply = self.send(&catalogue.by(&self.rita)).await?;
        let holds = self.inventory.requests() - before == 2;
        report.line(
            "resources/read the catalogue by rita",
            &reply,
            (200, None),
            "fetched anew after the order",
            holds,
        );
        Ok(())
    }

    async fn what_has_to_fit(&self, report: &mut Report) -> Result<(), BoxError> {
        let item = Call::tool("item", json!({"sku": "LAMP-1"})).by(&self.rita);
        let reply = self.send(&item.clone().header("Mcp-Name", "order")).await?;
        report.line(
            "another tool in Mcp-Name",
            &reply,
            (400, Some(-32020)),
            "proxies and server read the same",
            true,
        );

        let stock = Call::tool("stock", json!({"warehouse": "lyon"})).by(&self.rita);
        let reply = self.send(&stock.clone().header("Mcp-Param-Warehouse", "berlin")).await?;
        report.line(
            "another warehouse in Mcp-Param-Warehouse",
            &reply,
            (400, Some(-32020)),
            "so do arguments",
            true,
        );

        let reply = self.send(&stock.header("Mcp-Param-Warehouse", "lyon")).await?;
        let holds =
            reply.body["result"]["structuredContent"]["items"].as_array().is_some_and(|all| all.len() == 2);
        report.line("the same warehouse in both", &reply, (200, None), "two items in lyon", holds);

        let mut old = item.header("MCP-Protocol-Version", "2025-11-25");
        old.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2025-11-25".into();
        let reply = self.send(&old).await?;
        let holds = reply.body["error"]["data"]["supported"] == json!(["2026-07-28"]);
        report.line(
            "a revision that is not served",
            &reply,
            (400, Some(-32022)),
            "the answer names those that are",
            holds,
        );

        let mut deep = json!(1);
        for _ in 0..20 {
            deep = json!([deep]);
        }
        let reply = self.send(&Call::tool("item", json!({"sku": "A", "deep": deep})).by(&self.rita)).await?;
        let holds = reply.body["result"]["isError"] == true;
        report.line(
            "arguments that nest deeper than allowed",
            &reply,
            (200, None),
            "limits hold before the tool runs",
            holds,
        );
        Ok(())
    }

    async fn asked_before(&self, report: &mut Report) -> Result<(), BoxError> {
        let delete = Call::tool("delete_item", json!({"sku": "CABLE-9"})).by(&self.ada);
        let reply = self.send(&delete).await?;
        let holds =
            reply.body["error"]["data"]["requiredCapabilities"] == json!({"elicitation": {"form": {}}});
        report.line(
            "delete by a client that cannot ask",
            &reply,
            (400, Some(-32021)),
            "says what the client lacks",
            holds,
        );

        let delete = delete.can(json!({"elicitation": {}}));
        let reply = self.send(&delete).await?;
        let result = &reply.body["result"];
        let state = result["requestState"].as_str().unwrap_or_default().to_owned();
        let question = &result["inputRequests"]["confirm"]["params"]["message"];
        let holds = result["resultType"] == "input_required" && question.to_string().contains("140 pieces");
        report.line("delete by ada", &reply, (200, None), "the user is asked, the state sealed", holds);

        let mut forged = state.clone().into_bytes();
        let middle = forged.len() / 2;
        forged[middle] = if forged[middle] == b'A' { b'B' } else { b'A' };
        let reply = self.send(&delete.clone().confirmed(&String::from_utf8(forged)?)).await?;
        report.line(
            "confirmed with a state that was changed",
            &reply,
            (400, Some(-32602)),
            "one letter is enough",
            true,
        );

        let other =
            Call::tool("delete_item", json!({"sku": "LAMP-1"})).by(&self.ada).can(json!({"elicitation": {}}));
        let reply = self.send(&other.confirmed(&state)).await?;
        report.line(
            "confirmed for another item",
            &reply,
            (400, Some(-32602)),
            "yes to one is not yes to all",
            true,
        );

        let reply = self.send(&delete.clone().confirmed(&state)).await?;
        let text = reply.body["result"]["content"][0]["text"].to_string();
        report.line("confirmed", &reply, (200, None), "deleted", text.contains("deleted"));

        let reply = self.send(&delete.confirmed(&state)).await?;
        report.line("confirmed once more", &reply, (400, Some(-32602)), "a state is good for one use", true);

        let url = format!("{}/items/CABLE-9", self.inventory_url);
        let reply = self.client.send(Request::get(url).body(String::new())?).await?;
        let holds = reply.status == StatusCode::NOT_FOUND;
        report.line("GET the item from the inventory itself", &reply, (404, None), "it is gone", holds);
        Ok(())
    }
}

fn ordered(reply: &Reply) -> bool {
    reply.body["result"]["structuredContent"]["order"].is_u64()
}
