//! The internal API: stock levels and orders in an embedded database (`SQLite`), behind plain HTTP without any protection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::Deserialize;
use serde_json::{Value, json};

const SCHEMA: &str = "
    CREATE TABLE items (sku TEXT PRIMARY KEY, name TEXT NOT NULL, warehouse TEXT NOT NULL, stock INTEGER NOT NULL CHECK (stock >= 0));
    CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL);
    INSERT INTO items VALUES
        ('LAMP-1', 'Desk lamp', 'berlin', 12),
        ('CHAIR-7', 'Office chair', 'berlin', 3),
        ('DESK-2', 'Standing desk', 'lyon', 5),
        ('CABLE-9', 'Extension cable', 'lyon', 140);
";

#[derive(Clone)]
pub(crate) struct Inventory {
    database: Arc<Mutex<Connection>>,
    /// How often the API has been asked, which shows what the cache is good for.
    requests: Arc<AtomicUsize>,
}

/// What went wrong, with a text that callers may read.
struct Failure(StatusCode, String);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        tracing::error!(%error, "the database failed");
        Self(StatusCode::INTERNAL_SERVER_ERROR, "the database failed".to_owned())
    }
}

type Answer = Result<Json<Value>, Failure>;

#[derive(Deserialize)]
struct Where {
    warehouse: Option<String>,
}

#[derive(Deserialize)]
struct Order {
    customer: String,
    sku: String,
    quantity: u32,
}

impl Inventory {
    /// A database in memory with a few items in it.
    pub(crate) fn new() -> rusqlite::Result<Self> {
        let database = Connection::open_in_memory()?;
        database.execute_batch(SCHEMA)?;
        Ok(Self { database: Arc::new(Mutex::new(database)), requests: Arc::default() })
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn router(&self) -> Router {
        Router::new()
            .route("/items", get(items))
            .route("/items/{sku}", get(item).delete(remove_item))
            .route("/orders", post(order))
            .route("/orders/{customer}", get(orders))
            .with_state(self.clone())
    }

    /// Runs `work` in one transaction, which counts only if it succeeds.
    fn transaction<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<Json<T>, Failure> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        // A transaction that was broken off by a panic has been rolled back.
        let mut database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = database.transaction()?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(Json(done))
    }
}

fn to_item(row: &Row<'_>) -> rusqlite::Result<Value> {
    let (sku, name): (String, String) = (row.get(0)?, row.get(1)?);
    let (warehouse, stock): (String, u32) = (row.get(2)?, row.get(3)?);
    Ok(json!({ "sku": sku, "name": name, "warehouse": warehouse, "stock": stock }))
}

fn find(database: &Connection, sku: &str) -> Result<Value, Failure> {
    let item = database
        .query_row("SELECT sku, name, warehouse, stock FROM items WHERE sku = ?1", [sku], to_item)
        .optional()?;
    item.ok_or_else(|| Failure(StatusCode::NOT_FOUND, format!("there is no item {sku}")))
}

async fn items(State(inventory): State<Inventory>, Query(at): Query<Where>) -> Answer {
    inventory.transaction(|database| {
        let mut statement = database.prepare(
            "SELECT sku, name, warehouse, stock FROM items WHERE ?1 IS NULL OR warehouse = ?1 ORDER BY sku",
        )?;
        let items = statement.query_map([at.warehouse], to_item)?;
        Ok(items.collect::<rusqlite::Result<Value>>()?)
    })
}

async fn item(State(inventory): State<Inventory>, Path(sku): Path<String>) -> Answer {
    inventory.transaction(|database| find(database, &sku))
}

async fn remove_item(State(inventory): State<Inventory>, Path(sku): Path<String>) -> Answer {
    inventory.transaction(|database| {
        let item = find(database, &sku)?;
        database.execute("DELETE FROM items WHERE sku = ?1", [sku])?;
        Ok(item)
    })
}

async fn order(State(inventory): State<Inventory>, Json(order): Json<Order>) -> Answer {
    inventory.transaction(|database| {
        let item = find(database, &order.sku)?;
        let taken = database.execute(
            "UPDATE items SET stock = stock - ?2 WHERE sku = ?1 AND stock >= ?2",
            params![order.sku, order.quantity],
        )?;
        if taken == 0 {
            let left = format!("only {} of {} are left", item["stock"], order.sku);
            return Err(Failure(StatusCode::CONFLICT, left));
        }
        database.execute(
            "INSERT INTO orders (customer, sku, quantity) VALUES (?1, ?2, ?3)",
            params![order.customer, order.sku, order.quantity],
        )?;
        Ok(json!({"order": database.last_insert_rowid(), "sku": order.sku, "quantity": order.quantity}))
    })
}

async fn orders(State(inventory): State<Inventory>, Path(customer): Path<String>) -> Answer {
    inventory.transaction(|database| {
        let mut statement =
            database.prepare("SELECT id, sku, quantity FROM orders WHERE customer = ?1 ORDER BY id")?;
        let orders = statement.query_map([customer], |row| {
            let (order, sku, quantity): (i64, String, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(json!({ "order": order, "sku": sku, "quantity": quantity }))
        })?;
        Ok(orders.collect::<rusqlite::Result<Value>>()?)
    })
}
