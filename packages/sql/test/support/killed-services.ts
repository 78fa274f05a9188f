import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'vitest'
import { mariadbUrl, openMysql2 } from '../mysql/support/mysql-world.ts'
import { nodeKind } from '../sqlite/support/sqlite-world.ts'
import { openPg, postgresUrl } from './world.ts'

/** A database for services in processes of their own. */
export interface ServiceWorld extends AsyncDisposable {
  /** Says to a service where the database is: `SERVICE_STORE`, `SERVICE_URL` and `SERVICE_SCHEMA`. */
  readonly environment: Readonly<Record<string, string>>
  query(sql: string): Promise<readonly Readonly<Record<string, unknown>>[]>
}

export const serviceKinds: readonly { readonly name: string; open(): Promise<ServiceWorld> }[] = [
  {
    name: 'PostgreSQL',
    async open() {
      const world = await openPg({ fresh: true })
      return { ...world, environment: { SERVICE_STORE: 'postgres', SERVICE_URL: postgresUrl, SERVICE_SCHEMA: world.schema } }
    },
  },
  {
    name: 'MariaDB',
    async open() {
      const world = await openMysql2({ fresh: true })
      const url = Object.assign(new URL(mariadbUrl), { pathname: world.schema }).href
      return { ...world, environment: { SERVICE_STORE: 'mysql', SERVICE_URL: url } }
    },
  },
  {
    name: 'SQLite',
    async open() {
      const world = await nodeKind.open()
      return {
        environment: { SERVICE_STORE: 'sqlite', SERVICE_URL: world.path },
        query: async (sql) => world.query(sql),
        [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
      }
    },
  },
]

/** A process that does what it is sent, and answers. */
export class Service<Asked extends object> implements AsyncDisposable {
  readonly #child: ChildProcess
  /** Resolves to the signal that ended the process. */
  readonly ended: Promise<unknown>

  constructor(program: string, environment: ServiceWorld['environment']) {
    this.#child = fork(program, [], { env: { PATH: process.env['PATH'], ...environment }, execArgv: [] })
    this.ended = once(this.#child, 'exit').then(([, signal]) => signal)
  }

  /** Resolves to the next message of the process. */
  async hear(): Promise<unknown> {
    const early = this.ended.then((signal) => Promise.reject(new Error(`The process ended: ${signal}.`)))
    const [message] = await Promise.race([once(this.#child, 'message'), early])
    return message
  }

  send(asked: Asked): void {
    this.#child.send(asked)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.ended
  }
}

/** The services start together, because that takes most of the time of a test. */
export function startServices<Asked extends object>(program: string, environment: ServiceWorld['environment'], count: number) {
  const services = Array.from({ length: count }, () => new Service<Asked>(program, environment))
  return {
    async ready(): Promise<readonly Service<Asked>[]> {
      for (const message of await Promise.all(services.map((service) => service.hear()))) expect(message).toEqual({ ready: true })
      return services
    },
    async [Symbol.asyncDispose]() {
      for (const service of services) await service[Symbol.asyncDispose]()
    },
  }
}
