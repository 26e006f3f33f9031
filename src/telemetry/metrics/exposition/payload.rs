//! What payloads cost, as `/metrics` shows it.

use std::fmt;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::{Page, count, histogram, load};
use crate::telemetry::labels::WORKS;
use crate::telemetry::metrics::payload::PayloadCells;

pub(super) fn write(page: &mut Page, cells: &PayloadCells) -> fmt::Result {
    let help =
        "How long it took to make another form of a body, an index or a selection of its fields, or to code it";
    let mut took = page.describe("payload_work", help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for (work, latency) in WORKS.iter().zip(&cells.took) {
        histogram(&mut took.encode_family(&[("work", *work)])?, latency)?;
    }
    let mut bytes = page.describe("payload_read", "Bytes read by that", Some(&Unit::Bytes), MetricType::Counter)?;
    for (work, value) in cells.bytes.row(0, true) {
        count(&mut bytes.encode_family(&[("work", work)])?, value)?;
    }
    let help = "Requests on routes with a message, by the form that they ask for";
    let mut forms = page.describe("form_requests", help, None, MetricType::Counter)?;
    for (form, value) in cells.forms.row(0, true) {
        count(&mut forms.encode_family(&[("form", form)])?, value)?;
    }
    let help = "Fields that derived forms lack, since the schema does not know them";
    page.counter("payload_unknown_fields", help, load(&cells.unknown_fields))?;
    page.counter("payload_mismatches", "Bodies that do not fit their route's message", load(&cells.mismatches))?;
    let help = "Bytes that compressed replies became, by their content coding";
    let mut bytes = page.describe("decompressed", help, Some(&Unit::Bytes), MetricType::Counter)?;
    for (coding, value) in cells.decompressed.row(0, true) {
        count(&mut bytes.encode_family(&[("coding", coding)])?, value)?;
    }
    let help = "Replies of regions whose content coding was not asked for or cannot be taken off, by why";
    let mut why = page.describe("undecodable_replies", help, None, MetricType::Counter)?;
    for (word, value) in cells.undecodable.row(0, true) {
        count(&mut why.encode_family(&[("why", word)])?, value)?;
    }
    Ok(())
}
