// @ts-check

/**
 * A server version that another suite of the distribution offers.
 *
 * @typedef {object} ForeignServer
 * @property {string} id as in `make test-servers ONLY=…`, and the name of its directory
 * @property {'postgres' | 'mariadb' | 'redis' | 'rabbitmq' | 'nats'} kind the server that it replaces
 * @property {string} product
 * @property {string} suite
 * @property {readonly string[]} packages
 */

/** @type {readonly ForeignServer[]} */
export const foreignServers = [
  { id: 'postgresql-17', kind: 'postgres', product: 'PostgreSQL', suite: 'trixie', packages: ['postgresql-17'] },
  { id: 'postgresql-18', kind: 'postgres', product: 'PostgreSQL', suite: 'sid', packages: ['postgresql-18'] },
  { id: 'mariadb-11.8', kind: 'mariadb', product: 'MariaDB', suite: 'trixie', packages: ['mariadb-server', 'hostname'] },
  { id: 'mysql-9.7', kind: 'mariadb', product: 'MySQL', suite: 'sid', packages: ['mysql-server-core'] },
  { id: 'redis-8', kind: 'redis', product: 'Redis', suite: 'trixie', packages: ['redis-server'] },
  { id: 'valkey-8', kind: 'redis', product: 'Valkey', suite: 'trixie', packages: ['valkey-server'] },
  { id: 'valkey-9', kind: 'redis', product: 'Valkey', suite: 'sid', packages: ['valkey-server'] },
  { id: 'rabbitmq-4.0', kind: 'rabbitmq', product: 'RabbitMQ', suite: 'trixie', packages: ['rabbitmq-server', 'hostname'] },
  { id: 'rabbitmq-4.3', kind: 'rabbitmq', product: 'RabbitMQ', suite: 'sid', packages: ['rabbitmq-server', 'hostname'] },
  { id: 'nats-2.10', kind: 'nats', product: 'NATS', suite: 'trixie', packages: ['nats-server'] },
  { id: 'nats-2.15', kind: 'nats', product: 'NATS', suite: 'sid', packages: ['nats-server'] },
]
