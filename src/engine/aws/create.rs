//! Creates what a place needs, for emulators, demos and first steps; in production
//! infrastructure-as-code does. What is there already stays as it is.

use aws_sdk_dynamodb::types::{
    ApproximateCreationDateTimePrecision, AttributeDefinition, BillingMode, DestinationStatus,
    EnableKinesisStreamingConfiguration, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
    TimeToLiveSpecification, TimeToLiveStatus,
};
use aws_sdk_kinesis::types::{StreamMode, StreamModeDetails, StreamStatus};
use strum::VariantArray;

use super::super::{EngineError, Table, limits};
use super::attributes::{EXPIRES, PARTITION, SORT};
use super::errors::Asked;
use super::names::{stream_name, table_name};
use crate::aws::engine_clients::EngineClients;
use crate::config::TopicArn;
use crate::model::time::Clock;

/// Receives each thing that is ready, and whether it was there before.
pub type OnReady<'a> = dyn Fn(&str, bool) + Send + Sync + 'a;

/// Creates a place's tables, streams and topic.
pub struct Creation<'a> {
    pub clients: &'a EngineClients,
    pub prefix: &'a str,
    pub clock: Clock,
    pub on_ready: &'a OnReady<'a>,
}

impl Creation<'_> {
    /// The home region's tables, and their streams with this many shards each; `None` leaves the
    /// number to Kinesis (on demand).
    ///
    /// # Errors
    /// Any [`EngineError`]; those that pass were tried again for [`limits::CREATE_WAIT`].
    pub async fn home(&self, shards: Option<i32>) -> Result<(), EngineError> {
        self.tables(false).await?;
        for &table in Table::VARIANTS {
            let Some(stream) = table.stream() else { continue };
            let (table, stream) = (table_name(self.prefix, table), stream_name(self.prefix, stream));
            self.until_ready(&format!("stream {stream}"), || self.stream(&stream, shards)).await?;
            self.until_ready(&format!("streaming of {table} to {stream}"), || self.streaming(&table, &stream))
                .await?;
        }
        Ok(())
    }

    /// A region's tables.
    ///
    /// # Errors
    /// As for [`Creation::home`].
    pub async fn region(&self) -> Result<(), EngineError> {
        self.tables(true).await
    }

    /// A topic of the clients' region.
    ///
    /// # Errors
    /// As for [`Creation::home`].
    pub async fn topic(&self, topic: &TopicArn) -> Result<(), EngineError> {
        self.until_ready(&format!("topic {topic}"), || self.announcing(topic)).await
    }

    async fn tables(&self, are_regional: bool) -> Result<(), EngineError> {
        for &table in Table::VARIANTS.iter().filter(|table| table.is_regional() == are_regional) {
            let name = table_name(self.prefix, table);
            self.until_ready(&format!("table {name}"), || self.table(&name)).await?;
            if table.expires() {
                self.until_ready(&format!("time to live in {name}"), || self.time_to_live(&name)).await?;
            }
        }
        Ok(())
    }

    /// Looks, and creates what is missing, until it is ready.
    async fn until_ready<F>(&self, what: &str, step: impl Fn() -> F) -> Result<(), EngineError>
    where
        F: Future<Output = Result<bool, EngineError>>,
    {
        let deadline = self.clock.now() + limits::CREATE_WAIT;
        let mut was_there = true;
        loop {
            match step().await {
                Ok(true) => break,
                Err(error) if !error.is_transient() || self.clock.now() >= deadline => return Err(error),
                Ok(false) if self.clock.now() >= deadline => {
                    return Err(EngineError::Unavailable {
                        what: what.to_owned(),
                        why: "not ready in time".to_owned(),
                    });
                }
                Ok(false) => was_there = false,
                Err(_) => {}
            }
            tokio::time::sleep(limits::CREATE_LOOK).await;
        }
        (self.on_ready)(what, was_there);
        Ok(())
    }

    async fn table(&self, name: &str) -> Result<bool, EngineError> {
        let tables = &self.clients.tables;
        let asked = Asked { action: "dynamodb:DescribeTable", resource: name };
        match tables.describe_table().table_name(name).send().await.map_err(|error| asked.failed(&error)) {
            Ok(answer) => {
                Ok(answer.table.and_then(|table| table.table_status).is_some_and(|it| it == TableStatus::Active))
            }
            Err(EngineError::Missing { .. }) => {
                let asked = Asked { action: "dynamodb:CreateTable", resource: name };
                let mut call = tables.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
                for (attribute, kind) in [(PARTITION, KeyType::Hash), (SORT, KeyType::Range)] {
                    let definition = AttributeDefinition::builder()
                        .attribute_name(attribute)
                        .attribute_type(ScalarAttributeType::S)
                        .build();
                    let key = KeySchemaElement::builder().attribute_name(attribute).key_type(kind).build();
                    let (Ok(definition), Ok(key)) = (definition, key) else {
                        return Err(asked.refused("a key lacks a field"));
                    };
                    call = call.attribute_definitions(definition).key_schema(key);
                }
                call.send().await.map_err(|error| asked.failed(&error))?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn time_to_live(&self, table: &str) -> Result<bool, EngineError> {
        let tables = &self.clients.tables;
        let asked = Asked { action: "dynamodb:DescribeTimeToLive", resource: table };
        let answer = tables.describe_time_to_live().table_name(table).send().await;
        let status = answer.map_err(|error| asked.failed(&error))?.time_to_live_description;
        if status.and_then(|status| status.time_to_live_status).is_some_and(|it| {
            // Enabling takes up to an hour, and nothing needs to wait for it.
            matches!(it, TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
        }) {
            return Ok(true);
        }
        let asked = Asked { action: "dynamodb:UpdateTimeToLive", resource: table };
        let wanted = TimeToLiveSpecification::builder().enabled(true).attribute_name(EXPIRES).build();
        let wanted = wanted.map_err(|_| asked.refused("the specification lacks a field"))?;
        let call = tables.update_time_to_live().table_name(table).time_to_live_specification(wanted);
        call.send().await.map(|_| false).map_err(|error| asked.failed(&error))
    }

    async fn stream(&self, name: &str, shards: Option<i32>) -> Result<bool, EngineError> {
        match self.described(name).await {
            Ok((_, status)) => Ok(status == StreamStatus::Active),
            Err(EngineError::Missing { .. }) => {
                let asked = Asked { action: "kinesis:CreateStream", resource: name };
                let mode = if shards.is_some() { StreamMode::Provisioned } else { StreamMode::OnDemand };
                let details = StreamModeDetails::builder().stream_mode(mode).build();
                let details = details.map_err(|_| asked.refused("the stream's mode lacks a field"))?;
                let call = self.clients.kinesis.create_stream().stream_name(name).stream_mode_details(details);
                call.set_shard_count(shards).send().await.map_err(|error| asked.failed(&error))?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn described(&self, stream: &str) -> Result<(String, StreamStatus), EngineError> {
        let asked = Asked { action: "kinesis:DescribeStreamSummary", resource: stream };
        let answer = self.clients.kinesis.describe_stream_summary().stream_name(stream).send().await;
        let summary = answer.map_err(|error| asked.failed(&error))?.stream_description_summary;
        let summary = summary.ok_or_else(|| asked.unavailable("an empty answer"))?;
        Ok((summary.stream_arn, summary.stream_status))
    }

    async fn streaming(&self, table: &str, stream: &str) -> Result<bool, EngineError> {
        let (arn, _) = self.described(stream).await?;
        let tables = &self.clients.tables;
        let asked = Asked { action: "dynamodb:DescribeKinesisStreamingDestination", resource: table };
        let answer = tables.describe_kinesis_streaming_destination().table_name(table).send().await;
        let known = answer.map_err(|error| asked.failed(&error))?.kinesis_data_stream_destinations;
        let known = known.into_iter().flatten().find(|known| known.stream_arn() == Some(&arn));
        match known.and_then(|known| known.destination_status) {
            Some(DestinationStatus::Active) => return Ok(true),
            Some(DestinationStatus::Enabling | DestinationStatus::Disabling) => return Ok(false),
            _ => {}
        }
        let asked = Asked { action: "dynamodb:EnableKinesisStreamingDestination", resource: table };
        let precision = EnableKinesisStreamingConfiguration::builder()
            .approximate_creation_date_time_precision(ApproximateCreationDateTimePrecision::Millisecond)
            .build();
        let call = tables.enable_kinesis_streaming_destination().table_name(table).stream_arn(arn);
        let call = call.enable_kinesis_streaming_configuration(precision);
        call.send().await.map_err(|error| asked.failed(&error))?;
        Ok(false)
    }

    async fn announcing(&self, topic: &TopicArn) -> Result<bool, EngineError> {
        let sns = &self.clients.sns;
        let asked = Asked { action: "sns:GetTopicAttributes", resource: &topic.arn };
        match sns.get_topic_attributes().topic_arn(&topic.arn).send().await.map_err(|error| asked.failed(&error)) {
            Ok(_) => return Ok(true),
            Err(EngineError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        let asked = Asked { action: "sns:CreateTopic", resource: &topic.arn };
        // Version 2 is SHA-256.
        let call = sns.create_topic().name(&topic.name).attributes("SignatureVersion", "2");
        let made = call.send().await.map_err(|error| asked.failed(&error))?.topic_arn;
        match made {
            Some(made) if made == topic.arn => Ok(false),
            Some(made) => Err(asked.refused(&format!("these credentials make it as {made}: correct the account"))),
            None => Err(asked.unavailable("an empty answer")),
        }
    }
}
