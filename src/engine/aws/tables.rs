//! Tables in DynamoDB. Reads are strongly consistent; one write with a condition is a write of its
//! own, several are a transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, CancellationReason, ConditionCheck, Delete, Put, TransactWriteItem};
use futures_util::future::{BoxFuture, FutureExt};

use super::super::sizes::check_size;
use super::super::skipped::Skipped;
use super::super::{EngineError, Item, ItemKey, ItemWrite, Page, ScanSegment, Table, Tables, WriteError};
use super::attributes::{self, Attributes, ConditionParts};
use super::errors::Asked;
use super::names::table_name;
use crate::aws::engine_clients::EngineClients;
use crate::model::time::Clock;

/// The tables of one place; clones share their connections.
#[derive(Clone, Debug)]
pub struct DynamoTables {
    clients: EngineClients,
    prefix: String,
    skipped: Arc<Skipped>,
}

impl DynamoTables {
    pub fn new(clients: EngineClients, prefix: impl Into<String>) -> Self {
        Self { clients, prefix: prefix.into(), skipped: Arc::default() }
    }

    fn name(&self, table: Table) -> String {
        table_name(&self.prefix, table)
    }

    async fn read(&self, table: Table, key: &ItemKey) -> Result<Option<Item>, EngineError> {
        let name = self.name(table);
        let asked = Asked { action: "dynamodb:GetItem", resource: &name };
        let found = self
            .clients
            .reads
            .get_item()
            .table_name(&name)
            .set_key(Some(attributes::of_key(key)))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| asked.failed(&error))?;
        found.item.map(|item| of_nearside(item, &asked)).transpose()
    }

    async fn put(&self, table: Table, item: Item, condition: ConditionParts) -> Result<(), WriteError> {
        let name = self.name(table);
        let call = self
            .clients
            .writes
            .put_item()
            .table_name(&name)
            .set_item(Some(attributes::of_item(item)))
            .set_condition_expression(condition.expression)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values);
        let asked = Asked { action: "dynamodb:PutItem", resource: &name };
        call.send().await.map(drop).map_err(|error| single_failure(&error, asked))
    }

    async fn delete(&self, table: Table, key: &ItemKey, condition: ConditionParts) -> Result<(), WriteError> {
        let name = self.name(table);
        let call = self
            .clients
            .writes
            .delete_item()
            .table_name(&name)
            .set_key(Some(attributes::of_key(key)))
            .set_condition_expression(condition.expression)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values);
        let asked = Asked { action: "dynamodb:DeleteItem", resource: &name };
        call.send().await.map(drop).map_err(|error| single_failure(&error, asked))
    }

    /// Not repeated by the SDK, like every write: an attempt whose answer was lost may have taken
    /// place, and a later one that is refused would hide that.
    async fn transact(&self, writes: Vec<ItemWrite>) -> Result<(), WriteError> {
        let names: BTreeSet<String> = writes.iter().map(|write| self.name(write.table())).collect();
        let resource = Vec::from_iter(names).join(", ");
        let asked = Asked { action: "dynamodb:TransactWriteItems", resource: &resource };
        let parts: Result<Vec<_>, _> =
            writes.into_iter().map(|write| part(self.name(write.table()), write)).collect();
        let parts = parts.map_err(|_| asked.refused("a part lacks a field"))?;
        let call = self.clients.writes.transact_write_items().set_transact_items(Some(parts));
        call.send().await.map(drop).map_err(|error| transaction_failure(&error, asked))
    }

    async fn query_page(
        &self,
        table: Table,
        partition: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page, EngineError> {
        let name = self.name(table);
        let asked = Asked { action: "dynamodb:Query", resource: &name };
        let call = self
            .clients
            .tables
            .query()
            .table_name(&name)
            .consistent_read(true)
            .limit(at_most(limit))
            .expression_attribute_values(":p", AttributeValue::S(partition.to_owned()));
        let call = match after {
            Some(after) => call
                .key_condition_expression("p = :p AND s > :s")
                .expression_attribute_values(":s", AttributeValue::S(after.to_owned())),
            None => call.key_condition_expression("p = :p"),
        };
        let found = call.send().await.map_err(|error| asked.failed(&error))?;
        Ok(self.page(table, found.items, found.last_evaluated_key))
    }

    async fn last_item(&self, table: Table, partition: &str, through: &str) -> Result<Option<Item>, EngineError> {
        let name = self.name(table);
        let asked = Asked { action: "dynamodb:Query", resource: &name };
        let found = self
            .clients
            .reads
            .query()
            .table_name(&name)
            .consistent_read(true)
            .scan_index_forward(false)
            .limit(1)
            .key_condition_expression("p = :p AND s <= :s")
            .expression_attribute_values(":p", AttributeValue::S(partition.to_owned()))
            .expression_attribute_values(":s", AttributeValue::S(through.to_owned()))
            .send()
            .await
            .map_err(|error| asked.failed(&error))?;
        let last = found.items.unwrap_or_default().pop();
        last.map(|item| of_nearside(item, &asked)).transpose()
    }

    async fn scan_page(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> Result<Page, EngineError> {
        let name = self.name(table);
        let asked = Asked { action: "dynamodb:Scan", resource: &name };
        let found = self
            .clients
            .tables
            .scan()
            .table_name(&name)
            .consistent_read(true)
            .limit(at_most(limit))
            .segment(segment.number.cast_signed())
            .total_segments(segment.of.max(1).cast_signed())
            .set_exclusive_start_key(after.as_ref().map(attributes::of_key))
            .send()
            .await
            .map_err(|error| asked.failed(&error))?;
        Ok(self.page(table, found.items, found.last_evaluated_key))
    }

    /// Builds a page without items of others: they hold up nobody.
    fn page(&self, table: Table, items: Option<Vec<Attributes>>, next: Option<Attributes>) -> Page {
        let items = items
            .unwrap_or_default()
            .into_iter()
            .filter_map(|item| {
                let key = attributes::key_of(&item);
                let item = attributes::to_item(item);
                if item.is_none() {
                    let why = "it was not written by Nearside";
                    self.skipped.note(Clock::System.now(), table, key.as_ref(), why);
                }
                item
            })
            .collect();
        Page { items, next: next.and_then(|mut key| attributes::to_key(&mut key)) }
    }
}

fn of_nearside(item: Attributes, asked: &Asked<'_>) -> Result<Item, EngineError> {
    attributes::to_item(item).ok_or_else(|| asked.refused("the item was not written by Nearside"))
}

fn at_most(limit: usize) -> i32 {
    i32::try_from(limit.max(1)).unwrap_or(i32::MAX)
}

fn part(name: String, write: ItemWrite) -> Result<TransactWriteItem, aws_sdk_dynamodb::error::BuildError> {
    let condition = ConditionParts::from(write.condition());
    let whole = TransactWriteItem::builder();
    Ok(match write {
        ItemWrite::Put(_, item, _) => whole.put(
            Put::builder()
                .table_name(name)
                .set_item(Some(attributes::of_item(item)))
                .set_condition_expression(condition.expression)
                .set_expression_attribute_names(condition.names)
                .set_expression_attribute_values(condition.values)
                .build()?,
        ),
        ItemWrite::Delete(_, key, _) => whole.delete(
            Delete::builder()
                .table_name(name)
                .set_key(Some(attributes::of_key(&key)))
                .set_condition_expression(condition.expression)
                .set_expression_attribute_names(condition.names)
                .set_expression_attribute_values(condition.values)
                .build()?,
        ),
        ItemWrite::Check(_, key, _) => {
            let condition = condition.or_always();
            whole.condition_check(
                ConditionCheck::builder()
                    .table_name(name)
                    .set_key(Some(attributes::of_key(&key)))
                    .set_condition_expression(condition.expression)
                    .set_expression_attribute_names(condition.names)
                    .set_expression_attribute_values(condition.values)
                    .build()?,
            )
        }
    }
    .build())
}

/// Why a single write did not take place.
fn single_failure<E, R>(error: &SdkError<E, R>, asked: Asked<'_>) -> WriteError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    match error.as_service_error().and_then(ProvideErrorMetadata::code) {
        Some("ConditionalCheckFailedException") => WriteError::Conflict(vec![0]),
        Some("TransactionConflictException") => WriteError::Conflict(Vec::new()),
        _ => asked.failed(error).into(),
    }
}

fn transaction_failure<R: std::fmt::Debug + 'static>(
    error: &SdkError<TransactWriteItemsError, R>,
    asked: Asked<'_>,
) -> WriteError {
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(canceled)) => {
            cancellation(canceled.cancellation_reasons(), asked)
        }
        _ => asked.failed(error).into(),
    }
}

/// Why a transaction was cancelled: there is a reason for each part.
fn cancellation(reasons: &[CancellationReason], asked: Asked<'_>) -> WriteError {
    let codes: Vec<_> = reasons.iter().map(|reason| reason.code().unwrap_or("None")).collect();
    let failed: Vec<usize> = codes
        .iter()
        .enumerate()
        .filter(|(_, code)| **code == "ConditionalCheckFailed")
        .map(|(place, _)| place)
        .collect();
    if !failed.is_empty() || codes.contains(&"TransactionConflict") {
        return WriteError::Conflict(failed);
    }
    let code = codes.into_iter().find(|code| *code != "None");
    // The reasons are codes like those of whole calls, and mean the same.
    code.map_or_else(|| asked.refused("cancelled for no reason"), |code| asked.coded(code)).into()
}

impl Tables for DynamoTables {
    fn skipped(&self) -> u64 {
        self.skipped.count()
    }

    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.read(table, key).boxed()
    }

    fn write(&self, mut writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        async move {
            check_size(&writes)?;
            let only = if writes.len() == 1 { writes.pop() } else { None };
            match only {
                Some(ItemWrite::Put(table, item, condition)) => self.put(table, item, condition.into()).await,
                Some(ItemWrite::Delete(table, key, condition)) => self.delete(table, &key, condition.into()).await,
                Some(check) => self.transact(vec![check]).await,
                None => self.transact(writes).await,
            }
        }
        .boxed()
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        self.query_page(table, partition, after, limit).boxed()
    }

    fn last<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        through: &'a str,
    ) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.last_item(table, partition, through).boxed()
    }

    fn scan(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>> {
        self.scan_page(table, segment, after, limit).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked<'_> = Asked { action: "dynamodb:TransactWriteItems", resource: "p-records" };

    fn cancelled(codes: &[&str]) -> WriteError {
        let reasons: Vec<_> = codes.iter().map(|code| CancellationReason::builder().code(*code).build()).collect();
        cancellation(&reasons, ASKED)
    }

    #[test]
    fn cancelled_transaction_names_failed_conditions() {
        let both = ["None", "ConditionalCheckFailed", "TransactionConflict", "ConditionalCheckFailed"];
        assert_eq!(cancelled(&both), WriteError::Conflict(vec![1, 3]));
    }

    #[tokio::test]
    async fn foreign_items_are_skipped_in_pages() {
        let clients = crate::aws::clients::tests::nowhere().engine_clients("eu-west-1").await;
        let tables = DynamoTables::new(clients, "p");
        let good = Item::new(ItemKey::new("t#00", "k"), 1);
        let mut foreign = attributes::of_key(&ItemKey::new("t#00", "other"));
        foreign.insert("somebody's".to_owned(), AttributeValue::Bool(true));
        let items = vec![foreign, attributes::of_item(good.clone()), Attributes::new()];
        let page = tables.page(Table::Views, Some(items), Some(attributes::of_key(&good.key)));
        assert_eq!((page.items, page.next), (vec![good.clone()], Some(good.key)));
        assert_eq!(tables.skipped(), 2);
    }

    #[test]
    fn transaction_conflict_names_no_places() {
        assert_eq!(cancelled(&["None", "TransactionConflict", "ThrottlingError"]), WriteError::Conflict(vec![]));
    }

    #[test]
    fn throttled_part_throttles_whole_transaction() {
        assert_eq!(cancelled(&["ThrottlingError", "None"]), ASKED.throttled().into());
        assert_eq!(cancelled(&["None", "ProvisionedThroughputExceeded"]), ASKED.throttled().into());
        assert_eq!(cancelled(&["None", "ValidationError"]), ASKED.refused("ValidationError").into());
    }
}
