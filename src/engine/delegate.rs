//! A wrapper of tables writes what it changes, and delegates the rest.

/// Methods of `Tables` that only ask the tables in this field of `self`.
#[doc(hidden)]
#[macro_export]
macro_rules! delegate_tables {
    ($tables:tt: $($method:ident),+) => {
        $($crate::delegate_tables!(@ $method $tables);)+
    };
    (@ skipped $tables:tt) => {
        fn skipped(&self) -> u64 {
            self.$tables.skipped()
        }
    };
    (@ writes_at_once $tables:tt) => {
        fn writes_at_once(&self) -> usize {
            self.$tables.writes_at_once()
        }
    };
    (@ get $tables:tt) => {
        fn get<'a>(
            &'a self,
            table: $crate::engine::Table,
            key: &'a $crate::engine::ItemKey,
        ) -> ::futures_util::future::BoxFuture<'a, Result<Option<$crate::engine::Item>, $crate::engine::EngineError>>
        {
            self.$tables.get(table, key)
        }
    };
    (@ write $tables:tt) => {
        fn write(
            &self,
            writes: Vec<$crate::engine::ItemWrite>,
        ) -> ::futures_util::future::BoxFuture<'_, Result<(), $crate::engine::WriteError>> {
            self.$tables.write(writes)
        }
    };
    (@ query $tables:tt) => {
        fn query<'a>(
            &'a self,
            table: $crate::engine::Table,
            partition: &'a str,
            after: Option<&'a str>,
            limit: usize,
        ) -> ::futures_util::future::BoxFuture<'a, Result<$crate::engine::Page, $crate::engine::EngineError>> {
            self.$tables.query(table, partition, after, limit)
        }
    };
    (@ last $tables:tt) => {
        fn last<'a>(
            &'a self,
            table: $crate::engine::Table,
            partition: &'a str,
            through: &'a str,
        ) -> ::futures_util::future::BoxFuture<'a, Result<Option<$crate::engine::Item>, $crate::engine::EngineError>>
        {
            self.$tables.last(table, partition, through)
        }
    };
    (@ scan $tables:tt) => {
        fn scan(
            &self,
            table: $crate::engine::Table,
            segment: $crate::engine::ScanSegment,
            after: Option<$crate::engine::ItemKey>,
            limit: usize,
        ) -> ::futures_util::future::BoxFuture<'_, Result<$crate::engine::Page, $crate::engine::EngineError>> {
            self.$tables.scan(table, segment, after, limit)
        }
    };
}
