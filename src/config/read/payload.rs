//! What a route's callers may ask for besides the regions' own bytes.

use crate::config::scope::{Collector, SettingScope};
use crate::config::settings as schema;
use crate::config::{Form, MessageSettings, RoutePayload, checks, value};

pub(super) fn read(ledger: &mut Collector, scope: &SettingScope) -> RoutePayload {
    let message = scope.optional(ledger, &schema::ROUTE_SCHEMA, value::message);
    let is_protobuf = scope.given(ledger, &schema::ROUTE_FORM, value::word) == 1;
    let proto_names = scope.given(ledger, &schema::ROUTE_NAMES, value::word) == 1;
    let print_defaults = scope.given(ledger, &schema::ROUTE_PRINT_DEFAULTS, value::flag);
    let strict_accept = scope.given(ledger, &schema::ROUTE_STRICT_ACCEPT, value::flag);
    if message.is_none() {
        let belong =
            [&schema::ROUTE_FORM, &schema::ROUTE_NAMES, &schema::ROUTE_PRINT_DEFAULTS, &schema::ROUTE_STRICT_ACCEPT];
        checks::without_schema(ledger, scope.item, belong);
    }
    let form = if is_protobuf { Form::Protobuf } else { Form::Json };
    RoutePayload {
        message: message.map(|schema| MessageSettings { schema, form, proto_names, print_defaults, strict_accept }),
        fields: scope.optional(ledger, &schema::ROUTE_FIELDS, value::parameter),
        zstd: false,
    }
}
