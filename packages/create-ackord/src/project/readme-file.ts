import { applicationFiles } from './application-files.ts'
import { type Parts, serversOf, settingsOf } from './parts.ts'
import { programFiles } from './program-files.ts'

export function readmeFile(parts: Parts): string {
  const { name, store, broker, framework } = parts
  const servers = Object.keys(serversOf(parts))
  const start = servers.length === 0 ? '' : `docker compose up --detach --wait   # ${servers.join(', ')}\n`
  const withRoutes = framework.hasRoutes ? `, with an HTTP API on ${framework.title}` : ''
  const blocks = [
    `# ${name}`,
    `A service on [Ackord](https://www.npmjs.com/package/@ackord/core): it reads messages from ${broker.title}, stores orders in ${store.title}, and publishes events${withRoutes}.
Each message has its effect once, and no event of a stored order is lost, through duplicates, crashes and outages.`,
    '## Run it',
    `\`\`\`sh
npm install
${start}npm start
\`\`\``,
    'In another terminal:',
    `\`\`\`sh
npm run send
\`\`\``,
    `It sends the command \`order.place\` twice, as the same message. There is one \`order.placed\`: the second delivery is recognised by its id. Then it sends the event
\`payment.received\`, and \`order.paid\` comes back.`,
    broker.note,
    framework.hasRoutes
      ? `Orders can be placed by HTTP, too. The order and its event are stored in one transaction:

\`\`\`sh
curl -i -H 'content-type: application/json' -d '{"id":"o-1","total":42}' http://127.0.0.1:3000/orders
curl -i http://127.0.0.1:3000/health
\`\`\``
      : undefined,
    `| command | |
|---|---|
| \`npm start\` | runs the service; Ctrl-C or SIGTERM lets it finish what it is doing |
| \`npm run dev\` | the same, restarted when a file changes |
| \`npm run send\` | sends the command twice |
| \`npm test\` | the tests, which need no server |
| \`npm run typecheck\` | checks the types |
| \`npm run build\` | compiles to \`dist\`; then \`node dist/main.js\` runs it without development dependencies |`,
    '## Where to look',
    fileTable(parts),
    '## Settings',
    settingsTable(parts),
    '## Next',
    `- Add a message: define it in \`src/application/messages.ts\`, ${framework.program === undefined ? addHandler : framework.addHandler}.
- Test it with [the testkit](https://www.npmjs.com/package/@ackord/testkit), as in \`test/handlers.test.ts\`: \`crashTest()\` kills the service at every step.
- Look after it with the command: \`npx ackord status\`, \`npx ackord doctor\`, and \`npx ackord list\` for events that could not be published, each with \`--store\` and the URL of the store, or with that in \`ACKORD_STORE\`.`,
  ]
  return `${blocks.filter((block) => block !== undefined).join('\n\n')}\n`
}

/** In a program with `createService()`. */
const addHandler = 'write its handler beside the others, and add the handler to `handlers` in `src/main.ts`'

function fileTable(parts: Parts): string {
  const { store, broker, framework } = parts
  const paths = Object.keys({ ...applicationFiles, ...store.files, ...broker.files, ...framework.files, ...programFiles(parts) })
  const rows = paths.map((path) => [path, descriptions[path] ?? `the adapter for ${broker.title}`])
  return ['| file | |', '|---|---|', ...rows.map(([path, text]) => `| \`${path}\` | ${text} |`)].join('\n')
}

const descriptions: Readonly<Record<string, string>> = {
  'src/domain/order.ts': 'the order, and the port for storing orders',
  'src/application/messages.ts': 'the messages and their schemas',
  'src/application/place-order.ts': 'the handler of a command',
  'src/application/record-payment.ts': 'the handler of an event',
  'src/application/order-handlers.ts': 'the handlers of a command and of an event',
  'src/application/tokens.ts': 'the injection tokens of the ports',
  'src/open-adapters.ts': 'opens the store and the broker, with the options of `AckordModule`',
  'src/app.module.ts': 'puts it together with `AckordModule`',
  'src/main.ts': 'starts the service',
  'src/http/orders.controller.ts': '`POST /orders` and `GET /health`',
  'test/handlers.test.ts': 'the handlers, with every message delivered twice',
  'test/orders.controller.test.ts': 'the routes, without a store and a broker',
  'src/adapters/database.ts': 'opens the database and creates the tables',
  'src/adapters/tables.ts': 'the tables, for Drizzle',
  'src/adapters/postgres-orders.ts': 'the port on PostgreSQL',
  'src/adapters/mysql-orders.ts': 'the port on MariaDB and MySQL',
  'src/adapters/sqlite-orders.ts': 'the port on SQLite',
  'src/adapters/redis.ts': 'connects to Redis',
  'src/adapters/redis-orders.ts': 'the port on Redis',
  'src/http/order-routes.ts': '`POST /orders` and `GET /health`',
  'src/http/server.ts': 'the HTTP server',
  'test/order-routes.test.ts': 'the routes, without a server',
}

function settingsTable(parts: Parts): string {
  const rows = settingsOf(parts).flatMap(({ variable, value, meaning }) =>
    variable === undefined ? [] : [`| \`${variable}\` | ${value === undefined ? 'none' : `\`${value}\``} | ${meaning} |`],
  )
  return ['| variable | default | |', '|---|---|---|', ...rows].join('\n')
}
