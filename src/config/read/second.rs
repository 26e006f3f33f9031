//! Reads `second = { .. }` of a route.

use super::super::scope::{Collector, SettingScope};
use super::super::settings::{self as schema, Section};
use super::super::tree::Value;
use super::super::{Credentials, Form, IdentityMode, MessageSettings, SecondWay, Way, checks, value};
use crate::config::error::{ConfigError, ConfigProblem};

pub(super) fn read(
    ledger: &mut Collector,
    route: &SettingScope,
    identity: &IdentityMode,
    message: Option<&MessageSettings>,
) -> Option<SecondWay> {
    let raw = route.table.get("second")?;
    let table = match &raw.value {
        Value::Table(table) if !table.entries.is_empty() => table.clone(),
        other => {
            let what = match other {
                Value::Table(_) => "an empty table".to_owned(),
                _ => format!("{} where a table belongs", raw.kind()),
            };
            let wrong = ConfigProblem::new(what, "write second = { path = \"/v2/..\", way = \"old\" }, or remove it");
            ledger.mistakes.push(ConfigError::new(raw.place.clone(), Section::Second.path(), wrong));
            return None;
        }
    };
    let scope = ledger.scope(table, Section::Second, route.item);
    let path = scope.optional(ledger, &schema::SECOND_PATH, value::path);
    let written_form = scope.optional(ledger, &schema::SECOND_FORM, value::word);
    if written_form.is_some() && message.is_none() {
        checks::form_without_schema(ledger, route.item);
    }
    let form = written_form.map(|word| if word == 1 { Form::Protobuf } else { Form::Json });
    let url = scope.optional(ledger, &schema::SECOND_URL, value::url_per_region);
    let has_own_versions = scope.given(ledger, &schema::SECOND_VERSIONS, value::word) == 1;
    let file = scope.optional(ledger, &schema::SECOND_CREDENTIALS_FILE, value::file);
    let way = match scope.given(ledger, &schema::SECOND_WAY, value::word) {
        1 => Way::Check,
        2 => Way::New,
        _ => Way::Old,
    };
    let credentials = match identity {
        IdentityMode::Sidecar(own) => file.map(|file| Credentials { file, ..own.clone() }),
        IdentityMode::Exact(_) => {
            if file.is_some() {
                checks::credentials_for_all(ledger, route.item);
            }
            None
        }
    };
    Some(SecondWay {
        path,
        form: form.filter(|form| message.is_some_and(|message| message.form != *form)),
        url,
        has_own_versions,
        credentials,
        way,
        check_share: scope.given(ledger, &schema::SECOND_CHECK_SHARE, value::share),
        new_share: scope.given(ledger, &schema::SECOND_NEW_SHARE, value::share),
    })
}
