import { once } from 'node:events'
import { createServer } from 'node:net'
import { silentLogger } from '@ackord/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startMosquitto } from '../../../../scripts/servers/index.mjs'
import { openBroker } from '../../src/brokers/open-broker.ts'
import { Secrets } from '../../src/output/secrets.ts'
import { version } from '../../src/version.ts'
import { Ackord, ackord, start } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { installCommand, projectWith } from '../support/projects.ts'
import { mqttUrl, openTestStore, openTestTopic } from '../support/services.ts'

let guarded: Awaited<ReturnType<typeof startMosquitto>>

beforeAll(async () => {
  await bundleMain()
  guarded = await startMosquitto({ users: { 'a@b': 'p@ss/word' } })
})
afterAll(() => guarded.stop())

const open = (url: string) => openBroker(url, { option: '--broker', logger: silentLogger, secrets: new Secrets() })

describe('MQTT', () => {
  it.concurrent('gets records from a relay', async () => {
    await using topic = await openTestTopic(mqttUrl)
    await using test = await openTestStore()
    await test.fill(topic.topic, 20)
    const relay = start(['relay', '--from', ...test.args.slice(1), '--to', mqttUrl])
    expect(new Set(await topic.read(20)).size).toBe(20)
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)
  })

  it.concurrent('has a demo, whose sessions exist before their messages', async () => {
    const { code, stderr, last } = await ackord(['demo', '--orders', '60', '--store', 'sqlite:', '--broker', mqttUrl])
    expect(stderr).toBe('')
    expect(last).toMatchObject({ orders: 60, applied: 60, events_published: 60, lost: 0, applied_twice: 0 })
    expect(code).toBe(0)
  })

  it.concurrent('has credentials with special characters, percent-encoded', async () => {
    const broker = await open(`mqtt://a%40b:p%40ss%2Fword@127.0.0.1:${guarded.port}`)
    expect(broker.address).toBe(`mqtt://a%40b:***@127.0.0.1:${guarded.port}`)
    await broker[Symbol.asyncDispose]()
  })

  it.concurrent('fails with a wrong password, which is not shown', async () => {
    const url = `mqtt://a%40b:wrong-one@127.0.0.1:${guarded.port}`
    const { stderr, code } = await ackord(['demo', '--orders', '3', '--store', 'sqlite:', '--broker', url])
    expect(stderr).toContain('the credentials were rejected')
    expect(stderr).not.toContain('wrong-one')
    expect(code).toBe(4)
  })

  it.concurrent('fails at a server that is not there, and at one that is not MQTT', async () => {
    const { stderr, code } = await ackord(['demo', '--orders', '3', '--store', 'sqlite:', '--broker', 'mqtt://127.0.0.1:1'])
    expect(stderr).toContain('connection refused')
    expect(code).toBe(3)
    const other = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
    await once(other, 'listening')
    const address = other.address()
    await expect(open(`mqtt://127.0.0.1:${typeof address === 'object' && address?.port}`)).rejects.toMatchObject({ exitCode: 3 })
    other.close()
  })

  it.concurrent('needs packages that users install, in the project of the current directory', async () => {
    const command = [process.execPath, installCommand(), 'doctor', '--broker', 'mqtt://127.0.0.1:1']
    const without = await new Ackord(command).ended
    expect(without.stderr).toBe(
      `ackord: --broker requires packages that are not installed: mqtt.\n  Install: npm install @ackord/mqtt@${version} mqtt@5\n`,
    )
    expect(without.code).toBe(2)
    const { stdout, stderr } = await new Ackord(command, { cwd: await projectWith(['mqtt']) }).ended
    expect(stderr).toBe('')
    expect(stdout).toContain('Cannot use mqtt://127.0.0.1:1: connection refused')
  })

  it.concurrent('refuses a URL with a path, and topic filters as destinations', async () => {
    await expect(open(`${mqttUrl}/orders`)).rejects.toMatchObject({ message: expect.stringContaining('has a path') })
    const broker = await open(mqttUrl)
    expect(await broker.problemOf?.('orders/placed')).toBeUndefined()
    for (const filter of ['orders/#', '+/placed']) expect(await broker.problemOf?.(filter)).toContain('is a topic filter')
    await broker[Symbol.asyncDispose]()
  })
})
