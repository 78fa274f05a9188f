/** The pages by task. The reference, which is generated, comes behind. */
export const sidebar = [
  {
    text: 'Start',
    items: [
      { text: 'Getting started', link: '/start/' },
      { text: 'PostgreSQL', link: '/start/postgresql' },
      { text: 'MySQL and MariaDB', link: '/start/mysql' },
      { text: 'SQLite', link: '/start/sqlite' },
      { text: 'Redis', link: '/start/redis' },
      { text: 'Examples', link: '/examples' },
      { text: 'Guarantees', link: '/guarantees' },
      { text: 'Tested servers', link: '/compatibility' },
      { text: 'Alternatives', link: '/guides/alternatives' },
      { text: 'How it compares', link: '/comparison' },
    ],
  },
  {
    text: 'Guides',
    items: [
      { text: 'The inbox', link: '/guides/inbox' },
      { text: 'The outbox without a router', link: '/guides/outbox' },
      { text: 'The relay', link: '/guides/relay' },
      { text: 'Ordering', link: '/guides/ordering' },
      { text: 'Retries and dead letters', link: '/guides/retries-and-dead-letters' },
      { text: 'Schema and migrations', link: '/guides/schema-and-migrations' },
      { text: 'Testing your handlers', link: '/guides/testing' },
      { text: 'Adopting it handler by handler', link: '/guides/adopting' },
      { text: 'Moving from another outbox or queue', link: '/guides/migrating' },
    ],
  },
  {
    text: 'Brokers',
    items: [
      { text: 'RabbitMQ', link: '/guides/rabbitmq' },
      { text: 'NATS JetStream', link: '/guides/nats' },
      { text: 'Kafka', link: '/guides/kafka' },
      { text: 'Redis Streams', link: '/guides/redis-streams' },
      { text: 'HTTP', link: '/guides/http' },
    ],
  },
  {
    text: 'Stores',
    items: [
      { text: 'SQL: adapters and databases', link: '/packages/sql' },
      { text: 'Behind PgBouncer', link: '/guides/pgbouncer' },
      { text: 'Redis', link: '/guides/redis' },
      { text: 'Redis Cluster', link: '/guides/redis-cluster' },
      { text: 'The Lua outbox', link: '/guides/redis-lua-outbox' },
      { text: 'The Lua outbox: expiry and repair', link: '/guides/redis-lua-outbox-expiry' },
    ],
  },
  {
    text: 'Operate',
    items: [
      { text: 'Operating', link: '/guides/operating' },
      { text: 'What happens when', link: '/what-happens-when' },
      { text: 'Tuning', link: '/guides/tuning' },
      { text: 'Scaling past one machine', link: '/guides/scaling' },
      { text: 'The command', link: '/guides/command' },
    ],
  },
  {
    text: 'Reference',
    items: [
      { text: 'Errors', link: '/errors' },
      { text: 'Defaults', link: '/defaults' },
      { text: '@ackord/core', link: '/packages/core' },
      { text: '@ackord/outbox', link: '/packages/outbox' },
      { text: '@ackord/redis', link: '/packages/redis' },
      { text: '@ackord/rabbitmq', link: '/packages/rabbitmq' },
      { text: '@ackord/nats', link: '/packages/nats' },
      { text: '@ackord/kafka', link: '/packages/kafka' },
      { text: '@ackord/http', link: '/packages/http' },
      { text: '@ackord/testkit', link: '/packages/testkit' },
      { text: 'ackord, the command', link: '/packages/cli' },
    ],
  },
  {
    text: 'Decisions',
    items: [
      { text: 'Decisions', link: '/decisions' },
      { text: 'Pitfalls, and their tests', link: '/pitfalls' },
      { text: 'Architecture', link: '/project/architecture' },
      { text: 'Contributing', link: '/project/contributing' },
      { text: 'Changelog', link: '/project/changelog' },
    ],
  },
]
