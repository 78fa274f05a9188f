// @ts-check
// Projects in the layout of Nest's starter, which install the packed packages, and are compiled, tested with Jest and run on real servers.
import { deepStrictEqual, match } from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { connect } from 'amqplib'
import pg from 'pg'
import { freePort } from '../servers/free-port.mjs'
import { ownName } from '../test-run.mjs'
import { openBroker } from './brokers.mjs'
import { runCommand, startCommand } from './commands.mjs'
import { nestStarterFiles } from './nest-starter-files.mjs'
import { openStore } from './stores.mjs'

/**
 * The checks of one starter, in their order.
 *
 * @param {import('./nest-starter-files.mjs').NestStarter} starter
 * @param {string} parent the folder for the projects
 * @param {readonly import('../pack-packages.mjs').PackedPackage[]} packed
 * @returns {{ checks: readonly (readonly [string, () => Promise<void>])[], cleanUp: () => Promise<void> }}
 */
export function nestStarterChecks(starter, parent, packed) {
  const name = `ackordpkg${ownName()}`
  const folder = join(parent, `nest-${starter.nest}`)
  const run = (/** @type {string} */ command) => async () => void (await runCommand(command, { cwd: folder }))
  /** @type {(() => Promise<unknown>)[]} */
  const undo = []

  async function install() {
    for (const [path, text] of Object.entries(nestStarterFiles(starter, packed))) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), text)
    }
    await runCommand('npm install --prefer-offline --no-audit --no-fund --loglevel=error', { cwd: folder })
  }

  async function runService() {
    const store = await openStore['postgres']?.(name, folder)
    const broker = await openBroker['rabbitmq']?.(name)
    if (store === undefined || broker === undefined) throw new Error('There is no PostgreSQL or no RabbitMQ.')
    undo.unshift(broker.remove, store.remove)
    const environment = { ...store.environment, ...broker.environment, NAME: name, PORT: `${await freePort()}` }
    const service = await startCommand('node dist/main', /The application listens/, { cwd: folder, environment })
    undo.unshift(service.kill)
    await sendTwice(broker.environment['RABBITMQ_URL'] ?? '', `${name}.orders`)
    const mails = await mailsIn(store.environment['POSTGRES_URL'] ?? '')
    deepStrictEqual(mails, [{ id: 'o-1' }])
    deepStrictEqual(await store.orders(), [{ id: 'o-1', total: 42 }])
    match(await service.stop({ bySignal: true }), /The connections are closed\./)
    undo.shift()
  }

  return {
    checks: [
      ['installs the packages', install],
      ['compiles', run('npm run --silent build')],
      ['passes its tests, which run in Jest', run('npm test --silent')],
      ['handles a command once that is sent twice, and ends gracefully on SIGTERM', runService],
    ],
    async cleanUp() {
      for (const step of undo) await step()
    },
  }
}

/** Sends the same command twice, as another service would. @param {string} url @param {string} queue */
async function sendTwice(url, queue) {
  const connection = await connect(url)
  const channel = await connection.createConfirmChannel()
  const headers = {
    'cloudEvents:specversion': '1.0',
    'cloudEvents:id': 'm-1',
    'cloudEvents:source': '/test',
    'cloudEvents:type': 'order.place',
  }
  const body = Buffer.from(JSON.stringify({ id: 'o-1', total: 42 }))
  for (let times = 0; times < 2; times += 1) channel.sendToQueue(queue, body, { contentType: 'application/json', headers })
  await channel.waitForConfirms()
  await connection.close()
}

/** Waits until there is a mail. @param {string} url */
async function mailsIn(url) {
  const client = new pg.Client(url)
  await client.connect()
  const limit = AbortSignal.timeout(30_000)
  try {
    for (;;) {
      const { rows } = await client.query('SELECT id FROM mails')
      if (rows.length > 0) return rows
      limit.throwIfAborted()
    }
  } finally {
    await client.end()
  }
}
