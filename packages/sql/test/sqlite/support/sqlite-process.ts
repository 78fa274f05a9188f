import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import { bundle } from '../../../../../scripts/bundle.mjs'

/** A separate process that has the same file open. */
export interface SqliteProcess extends AsyncDisposable {
  /** Resolves to the result of the task. */
  ask(task: string, argument?: number): Promise<unknown>
  /** Resolves to the signal that ended the process. */
  readonly ended: Promise<unknown>
}

/** Returns a function that starts processes with the library. Their program file is deleted after the tests of the calling file. */
export function sqliteProcesses(): (path: string) => SqliteProcess {
  const program = fileURLToPath(new URL('./process-program.ts', import.meta.url))
  const file = fileURLToPath(new URL(`../../../../../.cache/sqlite/${process.pid}.mjs`, import.meta.url))
  beforeAll(() => bundle(program, file))
  afterAll(() => {
    for (const each of [file, `${file}.map`]) rmSync(each, { force: true })
  })
  return (path) => processOf(fork(file, [path], { execArgv: [] }))
}

function processOf(child: ChildProcess): SqliteProcess {
  const ended = once(child, 'exit').then(([, signal]) => signal)
  return {
    ended,
    async ask(task, argument) {
      const answer = once(child, 'message')
      child.send({ task, argument })
      const [{ result, error }] = await Promise.race([
        answer,
        ended.then(() => {
          throw new Error(`The process ended before it completed '${task}'.`)
        }),
      ])
      if (error !== undefined) throw new Error(error)
      return result
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await ended
    },
  }
}
