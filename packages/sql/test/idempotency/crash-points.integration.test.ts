import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { idempotencyCrashPoints } from '@ackord/testkit/suites'
import { describe, expect, it } from 'vitest'
import { mariadbUrl, openMysql2 } from '../mysql/support/mysql-world.ts'
import { nodeKind } from '../sqlite/support/sqlite-world.ts'
import { crashProgram } from '../support/crash-program.ts'
import { openPg, postgresUrl } from '../support/world.ts'
import type { ServeRequest } from './support/request-service.ts'

const program = crashProgram(new URL('./support/request-service.ts', import.meta.url))

interface RequestWorld extends AsyncDisposable {
  readonly environment: Readonly<Record<string, string>>
  query(sql: string): Promise<readonly Readonly<Record<string, unknown>>[]>
}

const kinds: readonly { readonly name: string; open(): Promise<RequestWorld> }[] = [
  {
    name: 'PostgreSQL',
    async open() {
      const world = await openPg({ fresh: true })
      return { ...world, environment: { REQUEST_STORE: 'postgres', REQUEST_URL: postgresUrl, REQUEST_SCHEMA: world.schema } }
    },
  },
  {
    name: 'MariaDB',
    async open() {
      const world = await openMysql2({ fresh: true })
      const url = Object.assign(new URL(mariadbUrl), { pathname: world.schema }).href
      return { ...world, environment: { REQUEST_STORE: 'mysql', REQUEST_URL: url } }
    },
  },
  {
    name: 'SQLite',
    async open() {
      const world = await nodeKind.open()
      return {
        environment: { REQUEST_STORE: 'sqlite', REQUEST_URL: world.path },
        query: async (sql) => world.query(sql),
        [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
      }
    },
  },
]

/** A process that serves requests. */
class Service implements AsyncDisposable {
  readonly #child: ChildProcess
  /** Resolves to the signal that ended the process. */
  readonly ended: Promise<unknown>

  constructor(environment: RequestWorld['environment']) {
    this.#child = fork(program, [], { env: { PATH: process.env['PATH'], ...environment }, execArgv: [] })
    this.ended = once(this.#child, 'exit').then(([, signal]) => signal)
  }

  /** Resolves to the next message of the process. */
  async hear(): Promise<unknown> {
    const early = this.ended.then((signal) => Promise.reject(new Error(`The process ended: ${signal}.`)))
    const [message] = await Promise.race([once(this.#child, 'message'), early])
    return message
  }

  send(asked: ServeRequest): void {
    this.#child.send(asked)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.ended
  }
}

/** The services start together, because that takes most of the time of a test. */
function startServices({ environment }: RequestWorld, count: number) {
  const services = Array.from({ length: count }, () => new Service(environment))
  return {
    async ready(): Promise<readonly Service[]> {
      for (const message of await Promise.all(services.map((service) => service.hear()))) expect(message).toEqual({ ready: true })
      return services
    },
    async [Symbol.asyncDispose]() {
      for (const service of services) await service[Symbol.asyncDispose]()
    },
  }
}

describe.each(kinds)('a request on $name whose process is killed', ({ open }) => {
  it('is answered once when it is repeated, wherever that happened', async () => {
    await using world = await open()
    await using services = startServices(world, idempotencyCrashPoints.length + 1)
    const [other, ...victims] = await services.ready()
    for (const [index, point] of idempotencyCrashPoints.entries()) {
      const killed = victims[index]
      if (other === undefined || killed === undefined) throw new Error('There is a service for each point.')
      killed.send({ request: point, lease: 200, killAt: point, fails: point === 'idempotency.released' })
      expect([point, await killed.ended]).toEqual([point, 'SIGKILL'])
      const before = await world.query(`SELECT id FROM orders WHERE note = '${point}'`)

      other.send({ request: point, lease: 60_000 })
      const repeated = (await other.hear()) as { readonly body?: string }
      other.send({ request: point, lease: 60_000 })
      expect(await other.hear()).toEqual(repeated)
      const orders = await world.query(`SELECT id FROM orders WHERE note = '${point}'`)
      expect([point, orders.map(({ id }) => id)]).toEqual([point, [repeated.body]])
      const events = await world.query(`SELECT id FROM ackord_outbox WHERE destination = '${point}'`)
      expect([point, events.map(({ id }) => String(id))]).toEqual([point, [repeated.body]])
      // What was committed before the kill was answered, and not done again.
      expect([point, before]).toEqual([point, point === 'transaction.afterCommit' ? orders : []])
    }
  }, 60_000)
})
