// @ts-check
import { join } from 'node:path'
import { Child, describeEnd, lastLines, runToEnd } from './child.mjs'
import { foreignRoot } from './foreign/root.mjs'
import { makeTemporaryDirectory, removeTemporaryDirectory } from './temporary-directory.mjs'
import { waitUntil } from './wait-until.mjs'

/**
 * A separate server, which a test may kill. Disposing is `stop()`.
 *
 * @typedef {ServerMembers & AsyncDisposable} Server
 */

/**
 * @typedef {object} ServerMembers
 * @property {string} name
 * @property {string} url
 * @property {number} port
 * @property {number} pid of the current process
 * @property {Promise<string>} exited resolves when the current process has ended, to a description of how
 * @property {() => Promise<void>} stop ends it and removes its data. May be called twice, or after `kill`.
 * @property {(signal?: NodeJS.Signals) => Promise<void>} kill resolves when the process has ended, or immediately for
 *   signals such as SIGSTOP that are not meant to end it. Default: SIGKILL.
 * @property {() => Promise<void>} restart on the same port and data; if it still runs, it is stopped gracefully first
 */

/**
 * @typedef {object} Launch
 * @property {string} file
 * @property {readonly string[]} args
 * @property {Readonly<Record<string, string>>} [env]
 */

/** @typedef {Launch & { ready: () => Promise<unknown> }} Companion */

/**
 * @typedef {object} Recipe
 * @property {string} name
 * @property {string} [kind] the kind whose unpacked system it runs in, if there is one. Default: the name.
 * @property {import('./account.mjs').Account | undefined} account
 * @property {(directory: string) => Launch} launch
 * @property {(output: string) => Promise<string>} ready resolves to the URL; rejects as long as the server does not answer.
 *   Receives the output of the process.
 * @property {((directory: string) => Launch[]) | undefined} [prepare] commands that fill the directory, in order
 * @property {Companion | undefined} [companion] a process that it depends on, started before and ended after it
 * @property {((url: string) => Promise<void>) | undefined} [finish] after the first start
 * @property {NodeJS.Signals | undefined} [stopSignal] asks it to end and keep its data. Default: SIGTERM.
 * @property {NodeJS.Signals | undefined} [discardSignal] ends it without preserving its data. Default: SIGKILL.
 * @property {RegExp | undefined} [passing] a failed start with this in its output is retried
 * @property {number | undefined} [timeout] the time limit of a start in milliseconds. Default: 30 000.
 */

/**
 * @param {Recipe} recipe
 * @returns {Promise<Server>}
 */
export async function startServer(recipe) {
  const { name, account, stopSignal = 'SIGTERM', discardSignal, passing, timeout = 30_000 } = recipe
  const root = foreignRoot(recipe.kind ?? name)
  const directory = makeTemporaryDirectory(name, account, root)
  const log = join(directory, 'log')

  /** @param {Launch} launch */
  const options = ({ file, args, env }) => ({ file, args, env, directory, log, account, discardSignal, root })

  /** @type {Child | undefined} */
  let companion
  /** @type {Child | undefined} */
  let child
  let url = ''
  /** @type {Promise<void> | undefined} */
  let stopped

  async function launch() {
    const deadline = performance.now() + timeout
    for (;;) {
      const started = new Child(options(recipe.launch(directory)))
      child = started
      const ask = async () => started.outcome !== undefined || (await recipe.ready(started.output))
      const answer = await waitUntil(`an answer from ${name}`, ask, { timeout: deadline - performance.now() }).catch((error) => {
        throw new Error(`${error.message}. ${lastLines(started)}`, { cause: error })
      })
      if (answer !== true) {
        url = answer
        return started
      }
      if (!passing?.test(started.output)) throw new Error(describeEnd(name, started))
    }
  }

  async function end() {
    await child?.end()
    await companion?.end()
    await removeTemporaryDirectory(directory)
  }

  try {
    for (const command of recipe.prepare?.(directory) ?? []) await runToEnd(options(command))
    if (recipe.companion !== undefined) {
      companion = new Child(options(recipe.companion))
      await waitUntil(`an answer from ${recipe.companion.file}`, recipe.companion.ready)
    }
    let current = await launch()
    await recipe.finish?.(url)

    const stop = () => {
      stopped ??= end()
      return stopped
    }
    return {
      name,
      get url() {
        return url
      },
      get port() {
        return Number(new URL(url).port)
      },
      get pid() {
        return current.pid
      },
      get exited() {
        return current.exited
      },
      stop,
      kill: (signal = 'SIGKILL') => current.kill(signal),
      async restart() {
        if (stopped !== undefined) throw new Error(`${name} was stopped and its data removed: start another one`)
        await current.end(stopSignal)
        current = await launch()
      },
      [Symbol.asyncDispose]: stop,
    }
  } catch (error) {
    await end()
    throw error
  }
}
