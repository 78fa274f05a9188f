// @ts-check
// The folders ("rooms") of each package, and which of them may import which. `make vet` checks it.

/**
 * Per package, from the foundation upwards. A room may import the rooms of earlier lines, and no room of its own line or a later one.
 * A name with an extension is a file in `src`, or in a room, whose other files need not be allowed. `index.ts` and other files that are not listed may import everything.
 *
 * @type {Readonly<Record<string, readonly (readonly string[])[]>>}
 */
const layers = {
  core: [
    ['escape-text.ts'],
    ['errors.ts'],
    ['options.ts'],
    ['ports'],
    ['async'],
    ['message'],
    ['payload', 'fairness'],
    ['broker', 'handler'],
    ['middleware'],
    ['router'],
  ],
  outbox: [['store', 'process'], ['options', 'memory', 'middleware'], ['delivery'], ['relay', 'replay'], ['source', 'service']],
  sql: [
    ['errors.ts'],
    ['records'],
    ['contract'],
    ['log'],
    ['transaction', 'ordering', 'orm'],
    ['inbox', 'outbox', 'idempotency', 'rates', 'process'],
    ['group-commit', 'schema'],
    ['tenants'],
    ['postgres', 'mysql', 'sqlite'],
  ],
  redis: [['client'], ['errors.ts'], ['transaction'], ['inbox', 'outbox', 'idempotency', 'rates', 'process', 'streams']],
  rabbitmq: [['client.ts', 'cloudevents.ts'], ['connection-watch.ts'], ['topology', 'publisher'], ['source']],
  mqtt: [
    ['client.ts', 'topic.ts'],
    ['connection-watch.ts', 'user-properties.ts'],
    ['source', 'publisher'],
  ],
  nats: [['client.ts', 'headers.ts'], ['connection-watch.ts'], ['jetstream-api.ts'], ['topology.ts'], ['source', 'publisher']],
  amqp: [
    ['client.ts', 'conditions.ts'],
    ['addresses.ts', 'cloudevents.ts', 'connection-watch.ts'],
    ['own-link.ts'],
    ['source', 'publisher'],
  ],
  kafka: [
    ['port.ts', 'cloudevents.ts'],
    ['source', 'publisher'],
  ],
  aws: [
    ['client.ts', 'aws-errors.ts', 'fifo.ts'],
    ['event-text.ts', 'queue-urls.ts', 'requests.ts'],
    ['source', 'publisher', 'objects'],
    ['lambda'],
  ],
  http: [['cloudevents'], ['source', 'publisher', 'serverless'], ['frameworks'], ['idempotency']],
  nestjs: [
    ['handlers', 'instance'],
    ['module', 'idempotency'],
    ['testing', 'microservice', 'transactional'],
  ],
  telemetry: [['version.ts', 'conventions.ts'], ['metrics'], ['trace']],
  dashboard: [['version.ts', 'api/types.ts'], ['http'], ['api'], ['overview', 'actions'], ['routes']],
  testkit: [
    ['run', 'helpers'],
    ['suites', 'crash'],
  ],
  'create-ackord': [['version.ts'], ['choices'], ['pieces'], ['project'], ['command']],
  cli: [
    ['output'],
    ['settings'],
    ['lifecycle.ts', 'session.ts'],
    ['stores'],
    ['brokers'],
    ['serving/http-server.ts'],
    ['demo', 'doctor', 'relay', 'watch'],
    ['serving'],
    ['commands'],
  ],
}

/**
 * Rooms that may import less than the earlier lines: a dialect depends on the contract that it implements, not on the inbox or outbox that uses it.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
const narrower = {
  'sql/postgres': ['errors.ts', 'records', 'contract', 'transaction', 'ordering', 'orm'],
  'sql/mysql': ['errors.ts', 'records', 'contract', 'transaction', 'ordering', 'orm'],
  'sql/sqlite': ['errors.ts', 'records', 'contract', 'transaction', 'ordering', 'orm'],
}

/**
 * Nested rooms that must not import each other.
 *
 * @type {readonly (readonly [string, string])[]}
 */
const strangers = [
  ['redis/src/outbox/stream', 'redis/src/outbox/lua'],
  ['redis/src/outbox/lua', 'redis/src/outbox/stream'],
]

/**
 * The packages that a package may import. Core imports no store, a store imports no broker, a broker imports no store.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
const packages = {
  core: [],
  outbox: ['core'],
  sql: ['core', 'outbox'],
  redis: ['core', 'outbox'],
  rabbitmq: ['core'],
  mqtt: ['core'],
  nats: ['core'],
  amqp: ['core'],
  kafka: ['core'],
  aws: ['core'],
  http: ['core', 'outbox'],
  telemetry: ['core', 'outbox'],
  dashboard: ['core', 'outbox'],
  testkit: ['core', 'outbox'],
  fastify: ['core', 'outbox', 'sql', 'redis', 'http'],
  nestjs: ['core', 'outbox', 'sql', 'redis', 'http', 'testkit'],
  'create-ackord': [],
}

/**
 * Files that import each other's types because the types are mutually recursive: a context has the message that it was created for, and a message makes its context.
 * A cycle through a third file is refused even if these are in it.
 */
const mutuallyRecursive = ['packages/core/src/message/context.ts', 'packages/core/src/message/message.ts']

/** @param {string} name */
const escaped = (name) => name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** @param {string} folder @param {string} name */
const pathOf = (folder, name) => `^${escaped(`packages/${folder}/src/${name}`)}${name.endsWith('.ts') ? '$' : '/'}`

/** The rules for dependency-cruiser. */
export function rules() {
  /** @type {import('dependency-cruiser').IForbiddenRuleType[]} */
  const forbidden = []
  for (const [name, lines] of Object.entries(layers)) {
    const known = lines.flat()
    lines.forEach((line, index) => {
      for (const room of line) {
        const allowed = narrower[`${name}/${room}`] ?? lines.slice(0, index).flat()
        const others = known.filter((other) => other !== room && !allowed.includes(other))
        const filesOfRooms = allowed.filter((other) => other.includes('/')).map((other) => pathOf(name, other))
        const rule = {
          name: `${name}/${room}`,
          comment: `packages/${name}/src/${room} may import ${allowed.length === 0 ? 'no other room' : allowed.join(', ')} (scripts/rooms/rules.mjs).`,
          severity: /** @type {const} */ ('error'),
          from: { path: pathOf(name, room) },
          to: {
            path: [...others.map((other) => pathOf(name, other)), `^packages/${name}/src/index\\.ts$`],
            ...(filesOfRooms.length === 0 ? {} : { pathNot: filesOfRooms }),
          },
        }
        forbidden.push(rule)
      }
    })
  }
  for (const [from, to] of strangers) {
    forbidden.push({
      name: `${from} knows ${to}`,
      severity: 'error',
      from: { path: `^packages/${from}/` },
      to: { path: `^packages/${to}/` },
    })
  }
  for (const [name, allowed] of Object.entries(packages)) {
    const others = Object.keys({ ...packages, cli: [] }).filter((other) => other !== name && !allowed.includes(other))
    forbidden.push({
      name: `package ${name}`,
      comment: `packages/${name} may import ${allowed.length === 0 ? 'no other package' : allowed.join(', ')} (scripts/rooms/rules.mjs).`,
      severity: 'error',
      from: { path: `^packages/${name}/src/` },
      to: { path: `^packages/(${others.join('|')})/` },
    })
  }
  // Type imports included: a cycle of types cannot be read from the bottom upwards either. Biome refuses only those of values.
  forbidden.push({
    name: 'no cycles',
    comment: 'Move what both files need to the one that knows less, or to a file of its own.',
    severity: 'error',
    from: { path: '^packages/[^/]+/src/', pathNot: mutuallyRecursive.map((file) => `^${escaped(file)}$`) },
    to: { circular: true },
  })
  return forbidden
}
