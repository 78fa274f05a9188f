// @ts-check
// The pages of docs/start, followed from an empty folder: their shell blocks are run and their files are written, in the order of the page.
import { deepStrictEqual, match } from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ownName } from '../test-run.mjs'
import { openBroker } from './brokers.mjs'
import { runCommand, startCommand } from './commands.mjs'
import { openStore } from './stores.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))

export const startPages = [
  { page: 'postgresql', store: 'postgres', broker: 'rabbitmq' },
  { page: 'mysql', store: 'mysql', broker: 'rabbitmq' },
  { page: 'sqlite', store: 'sqlite', broker: 'rabbitmq' },
  { page: 'redis', store: 'redis', broker: 'redis-streams' },
].map((page) => ({ ...page, title: `docs/start/${page.page}.md` }))

const serviceCommand = 'node --import tsx service.ts'
const sendCommand = 'node --import tsx send.ts'

/** Each run of `send.ts`: its order, and whether an event came. */
const sent =
  /^Sent twice: order\.place \{"id":"(o-\w+)","total":42\}, message m-\w+\n(Received: order\.placed \{"orderId":"\1"\}$|No event: )/gm

/** The shell blocks and the files of a page, in order. @param {string} page @param {string} word replaces `shop`, so that names are unique */
function blocksOf(page, word) {
  const text = readFileSync(join(root, page), 'utf8')
  return [...text.matchAll(/^```(sh|ts)(?: \[(.+)\])?\n([\s\S]*?)^```$/gm)]
    .filter(([, language, title]) => language === 'sh' || title !== undefined)
    .map(([, , title, code = '']) => ({ title, code: code.replaceAll(/\bshop\b/g, word).trim() }))
}

/**
 * A reader installs the packages from the registry and starts servers with Docker. Here the packages are tarballs, and the servers are running.
 *
 * @param {string} code
 * @param {readonly import('../pack-packages.mjs').PackedPackage[]} packed
 */
function adapted(code, packed) {
  const tarballs = new Map(packed.map(({ name, tarball }) => [name, tarball]))
  const continued = /\\\n\s*/g
  const lines = code
    .replaceAll(continued, '')
    .split('\n')
    .filter((line) => !line.startsWith('docker '))
  return lines.flatMap((line) => {
    if (!line.startsWith('npm install ')) return [line]
    /** @type {readonly string[]} */
    const named = line.match(/@ackord\/[a-z]+/g) ?? []
    // Packages that the page does not name are installed with those that need them.
    const others = packed.filter(({ name }) => !named.includes(name)).map(({ name, tarball }) => `'overrides.${name}=file:${tarball}'`)
    const install = line.replaceAll(/@ackord\/[a-z]+/g, (name) => tarballs.get(name) ?? name)
    return [
      ...(named.length > 0 ? [`npm pkg set ${others.join(' ')}`] : []),
      `${install} --prefer-offline --no-audit --no-fund --loglevel=error`,
    ]
  })
}

/**
 * @param {(typeof startPages)[number]} page
 * @param {string} folder
 * @param {readonly import('../pack-packages.mjs').PackedPackage[]} packed
 * @returns {{ checks: readonly (readonly [string, () => Promise<void>])[], cleanUp: () => Promise<void> }}
 */
export function pageChecks({ title, page, store, broker }, folder, packed) {
  const name = `ackordpkg${ownName()}`
  let cwd = join(folder, page)
  /** @type {(() => Promise<unknown>)[]} */
  const undo = []

  async function follow() {
    mkdirSync(cwd, { recursive: true })
    const opened = await openStore[store]?.(name, cwd)
    const atBroker = await openBroker[broker]?.(name)
    if (opened === undefined || atBroker === undefined) throw new Error(`There is no ${store} or no ${broker}.`)
    undo.push(atBroker.remove, opened.remove)
    const environment = { ...opened.environment, ...atBroker.environment }
    /** @type {Awaited<ReturnType<typeof startCommand>> | undefined} */
    let service
    let printed = ''
    for (const block of blocksOf(title, name)) {
      if (block.title !== undefined) {
        writeFileSync(join(cwd, block.title), `${block.code}\n`)
        continue
      }
      const lines = adapted(block.code, packed)
      if (lines.includes(serviceCommand)) {
        service = await startCommand(serviceCommand, /The service runs\./, { cwd, environment })
        undo.unshift(service.kill)
      } else if (lines.length > 0) {
        const output = (await runCommand(`set -e\n${lines.join('\n')}\npwd`, { cwd, environment })).trimEnd().split('\n')
        cwd = output.pop() ?? cwd
        if (lines.some((line) => line.startsWith(sendCommand))) printed += `${output.join('\n')}\n`
      }
    }
    // An order of its own, then `o-1` twice.
    const runs = [...printed.matchAll(sent)].map(([, id = '', answer = '']) => ({ id, received: answer.startsWith('Received') }))
    const [{ id: first = '' } = {}] = runs
    match(first, /^o-[0-9a-f]{8}$/)
    deepStrictEqual(
      runs,
      [
        { id: first, received: true },
        { id: 'o-1', received: true },
        { id: 'o-1', received: false },
      ],
      printed,
    )
    deepStrictEqual(printed.match(/^Received/gm)?.length, 2, printed)
    const byId = (/** @type {{ id: string }} */ a, /** @type {{ id: string }} */ b) => (a.id < b.id ? -1 : 1)
    deepStrictEqual(
      (await opened.orders()).map((row) => ({ ...row })).sort(byId),
      [first, 'o-1'].map((id) => ({ id, total: 42 })).sort(byId),
    )
    if (service === undefined) throw new Error(`The page does not say '${serviceCommand}'.`)
    await service.stop()
    undo.shift()
  }

  return {
    checks: [['leads from an empty folder to a service that handles a message once', follow]],
    async cleanUp() {
      for (const step of undo) await step()
    },
  }
}
