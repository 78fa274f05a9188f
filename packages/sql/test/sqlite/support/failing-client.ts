import type { TestClient } from './sqlite-world.ts'

/** Wraps a client so that a statement fails whenever `failureOf` returns an error for it. */
export function failingClient(client: TestClient, failureOf: (sql: string) => Error | undefined): TestClient {
  const check = (sql: string) => {
    const failure = failureOf(sql)
    if (failure !== undefined) throw failure
  }
  return {
    get isTransaction() {
      return client.isTransaction ?? client.inTransaction ?? false
    },
    prepare(sql) {
      check(sql)
      return client.prepare(sql)
    },
    exec(sql) {
      check(sql)
      return client.exec(sql)
    },
    close: () => client.close(),
  }
}

/** Creates an error in the format of node:sqlite. */
export function sqliteError(errcode: number, text: string): Error {
  return Object.assign(new Error(text), { code: 'ERR_SQLITE_ERROR', errcode })
}
