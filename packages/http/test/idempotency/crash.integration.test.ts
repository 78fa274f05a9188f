import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import { bundle } from '../../../../scripts/bundle.mjs'
import { idempotentServers, sendOrder } from '../support/idempotent-servers.ts'
import { shopKinds } from '../support/idempotent-stores.ts'

const program = fileURLToPath(new URL('../support/idempotent-process.ts', import.meta.url))
const bundled = fileURLToPath(new URL('../../.cache/idempotent-process.mjs', import.meta.url))
const lamp = { product: 'lamp' }

beforeAll(() => bundle(program, bundled))

interface RunningProcess extends AsyncDisposable {
  readonly url: string
  /** Resolves when an order is written and its transaction is open. */
  readonly written: Promise<unknown>
  kill(): Promise<void>
}

async function start(...args: readonly string[]): Promise<RunningProcess> {
  const child: ChildProcess = spawn(process.execPath, ['--enable-source-maps', bundled, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })
  const [url] = (await Promise.race([once(lines, 'line'), closed.then(() => ['it ended'])])) as [string]
  const written = once(lines, 'line')
  written.catch(() => {})
  const kill = async () => {
    child.kill('SIGKILL')
    await closed
  }
  return { url, written, kill, [Symbol.asyncDispose]: kill }
}

describe.each(Object.keys(shopKinds))('on %s', (kind) => {
  it.each(Object.keys(idempotentServers))(
    'a request whose process is killed with %s is carried out once, when it is sent again',
    async (framework) => {
      const kindOfShop = shopKinds[kind]
      if (kindOfShop === undefined) throw new Error(`There is no ${kind}.`)
      await using shop = await kindOfShop.open()
      const lease = '2000'
      await using first = await start(framework, kind, shop.name, 'waits', lease)
      const lost = sendOrder(first.url, lamp)
      lost.catch(() => {})
      await first.written
      await first.kill()
      await expect(lost).rejects.toThrow()
      expect([await shop.orders(), await shop.events()]).toEqual([0, 0])

      await using second = await start(framework, kind, shop.name, 'works', lease)
      // Until the lease of the dead process ends.
      let answer = await sendOrder(second.url, lamp)
      while (answer.status === 409) {
        await setTimeout(Number(answer.headers.get('retry-after')) * 1000)
        answer = await sendOrder(second.url, lamp)
      }
      expect(answer).toMatchObject({ status: 201, isReplayed: false })
      expect(await sendOrder(second.url, lamp)).toMatchObject({ status: 201, body: answer.body, isReplayed: true })
      expect([await shop.orders(), await shop.events()]).toEqual([1, 1])
    },
  )
})
