import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command, Option } from 'commander'
import { beforeAll, describe, expect, it } from 'vitest'
import { buildProgram } from '../../src/program.ts'
import { allSettings, type Setting } from '../../src/settings/settings.ts'
import { ackord, type Ended, emptyDirectory } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openTestStore } from '../support/services.ts'

beforeAll(bundleMain)

const program = buildProgram({ execute: () => () => Promise.resolve(), write() {} })

/** Values that an option must reject. Every option also rejects an empty value, which is all that is wrong with a free text. */
const durations = ['soon', '5 s', '-1s', '40000d']
const counts = ['0', 'many', '1.5', '-3']
const urls = ['orders.db', 'postgre://host/db', 'mysql://host:1x/db', 'amqp://user:50%@host']
const bad: Readonly<Record<string, readonly string[]>> = {
  '--store': urls,
  '--from': urls,
  '--to': ['rabbit', 'ampq://host', 'nats://host:1x', 'memory:'],
  '--broker': ['rabbit', 'ampq://host', 'nats://host:1x'],
  '--outbox': ['list'],
  '--tag': ['a,,b'],
  '--shards': [...counts, '99999'],
  '--map': ['orders', 'a=b,a=c'],
  '--destinations': ['a,,b'],
  '--order': ['perkey'],
  // The store of these tests is SQLite.
  '--mode': ['Log', 'log'],
  '--on-exhausted': ['stop', 'block'],
  '--keep-published': [...durations, '0'],
  '--inbox-window': [...durations, '0'],
  '--inbox-partitions': ['day', '4'],
  '--batch-size': counts,
  '--concurrency': counts,
  '--total-concurrency': counts,
  '--lease': [...durations, '0', '5', '10s'],
  '--publish-timeout': [...durations, '0', '30s'],
  '--max-attempts': counts,
  '--poll-interval': [...durations, '0'],
  '--shutdown-timeout': [...durations, '0'],
  '--port': ['http', '70000', '-1'],
  '--orders': counts,
  '--records': counts,
  '--state': ['lost'],
  '--limit': counts,
  '--delivery-limit': [...counts, '1', 'None', '1e3'],
  '--delay': durations,
  '--set-attribute': ['dataversion', 'id=7', 'dataVersion=2'],
  '--rate': ['fast', '0/s', '-1/s'],
  '--since': ['yesterday', '-1h'],
  '--until': ['tomorrow', '2026-13-01'],
}
/** Destinations of a broker, not URLs. */
const freeTexts = /^dead-letters .*--(from|to)$/
/** Not rejected when empty: no prefix, and a message without a source. */
const mayBeEmpty = /--prefix$|^inbox .*--source$/

/** A store with tables, so that an option is not rejected only because nothing can be opened. */
const directory = emptyDirectory()
const store = `sqlite:${join(directory, 'orders.db')}`
beforeAll(async () => {
  expect((await ackord(['migrate', 'up', '--store', store])).code).toBe(0)
})

const letters = ['--broker', 'amqp://127.0.0.1:1', '--from', 'orders.dead']

/** Arguments with which a command fails only because of the option that is tested. */
const otherwise: Readonly<Record<string, readonly string[]>> = {
  show: ['42'],
  park: ['42', '--reason', 'wrong price'],
  rearm: ['42'],
  discard: ['42', '--reason', 'test data'],
  cancel: ['42', '--reason', 'test data'],
  replay: ['--all', '--broker', 'amqp://127.0.0.1:1'],
  pause: ['orders', '--reason', 'maintenance'],
  resume: ['orders'],
  relay: ['--from', store, '--to', 'amqp://127.0.0.1:1'],
  'inbox show': ['7d9f'],
  'processes show': ['order', 'o-1'],
  'processes end': ['order', 'o-1', '--yes'],
  'inbox forget': ['7d9f', '--consumer', 'orders', '--yes'],
  dashboard: ['--dead-letters', 'orders.dead'],
  'dead-letters list': letters,
  'dead-letters show': ['7d9f', ...letters],
  'dead-letters replay': ['7d9f', ...letters],
  'dead-letters discard': ['7d9f', '--reason', 'test data', '--yes', ...letters],
}

interface Case {
  readonly command: string
  readonly flag: string
  readonly option: Option
  readonly setting: Setting | undefined
  readonly values: readonly string[]
}

const cases = commandsOf(program).flatMap(({ path, command }) =>
  command.options
    .filter((option) => !option.isBoolean() && option.long !== '--config')
    .map((option): Case => {
      const flag = option.long ?? ''
      const name = `${path} ${flag}`
      const values = [...(freeTexts.test(name) ? [] : (bad[flag] ?? [])), ...(mayBeEmpty.test(name) ? [] : [''])]
      return { command: path, flag, option, setting: allSettings(command).find((each) => each.option === option), values }
    }),
)

function commandsOf(command: Command, path = ''): readonly { readonly path: string; readonly command: Command }[] {
  return command.commands
    .filter((each) => each.name() !== 'help')
    .flatMap((each) => {
      const own = `${path} ${each.name()}`.trim()
      return each.commands.length > 0 ? commandsOf(each, own) : [{ path: own, command: each }]
    })
}

/** The arguments of the command without the option, so that only the tested value is there. */
function argumentsOf({ command, flag, option }: Case): readonly string[] {
  const needed = [...(otherwise[command] ?? [])]
  const index = needed.indexOf(flag)
  if (index >= 0) needed.splice(index, 2)
  const hasStore = !/^(relay|demo|dead-letters .*)$/.test(command) && option.attributeName() !== 'store'
  return [...command.split(' '), ...needed, ...(hasStore ? ['--store', store] : [])]
}

/** The error names what the user wrote, and no option of the library. */
function expectNamed({ code, stdout, stderr }: Ended, written: string, { flag, setting }: Case): void {
  expect({ code, stdout }, stderr).toEqual({ code: 2, stdout: '' })
  const [line = '', ...rest] = stderr.trimEnd().split('\n')
  expect(line).toContain(written)
  expect(rest.length).toBeLessThanOrEqual(1)
  const internal = flag.slice(2).replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())
  if (internal !== flag.slice(2) && written !== `'${setting?.key}' in ackord.config.json`) expect(line).not.toContain(internal)
  if (written !== flag) expect(line).not.toContain(flag)
}

describe('a value that cannot be right', () => {
  it.each(cases.map((each) => [each.command, each.flag, each] as const))(
    'ackord %s %s is reported by its flag',
    async (command, flag, one) => {
      expect(one.values.length + Number(mayBeEmpty.test(`${command} ${flag}`))).toBeGreaterThan(0)
      for (const value of one.values) expectNamed(await ackord([...argumentsOf(one), flag, value]), flag, one)
    },
  )

  it.each(cases.filter(({ setting }) => setting !== undefined).map((each) => [each.command, each.setting?.variable, each] as const))(
    'ackord %s is reported by its variable, %s, or its key in the file',
    async (_, variable = '', one) => {
      const cwd = emptyDirectory()
      const key = one.setting?.key ?? ''
      for (const value of one.values) {
        // A variable that is empty counts as not set.
        if (value !== '') expectNamed(await ackord(argumentsOf(one), { env: { [variable]: value } }), variable, one)
        writeFileSync(join(cwd, 'ackord.config.json'), JSON.stringify({ [key]: value }))
        expectNamed(await ackord(argumentsOf(one), { cwd }), `'${key}' in ackord.config.json`, one)
      }
    },
  )

  it('is tried for every option that has such values', () => {
    const flags = new Set(cases.map(({ flag }) => flag))
    expect(Object.keys(bad).filter((flag) => !flags.has(flag))).toEqual([])
  })
})

describe('an option that only the library can reject', () => {
  const postgres = ['--store', 'postgres:']

  it.each([
    [['migrate', 'print', ...postgres, '--schema', 's'.repeat(64)], '--schema is longer than 63 bytes.'],
    [['migrate', 'print', ...postgres, '--prefix', 'p'.repeat(64)], '--prefix makes a table name that is longer than 63 bytes.'],
    [['migrate', 'print', ...postgres, '--prefix', 'a\0b'], '--prefix makes a table name that contains a NUL character.'],
    [['migrate', 'print', '--store', 'mysql:', '--schema', 'a '], '--schema ends with whitespace.'],
    [
      ['migrate', 'print', '--store', 'mysql:', '--inbox-partitions', 'true'],
      '--inbox-partitions is supported on PostgreSQL only. Omit it, or use PostgreSQL.',
    ],
  ])('%j', async (args, expected) => {
    const { code, stderr } = await ackord(args)
    expect(stderr).toBe(`ackord: ${expected}\n`)
    expect(code).toBe(2)
  })

  it('is reported by the name that was written', async () => {
    const { stderr } = await ackord(['migrate', 'print', ...postgres], { env: { ACKORD_SCHEMA: 's'.repeat(64) } })
    expect(stderr).toBe('ackord: ACKORD_SCHEMA is longer than 63 bytes.\n')
  })

  it('is reported by its flag when the store rejects it, too', async () => {
    await using world = await openTestStore()
    const [after, schema] = [
      await ackord(['list', ...world.args, '--after', 'nonsense']),
      await ackord(['status', ...world.args, '--schema', 'other']),
    ]
    expect(after.stderr).toBe(
      'ackord: --after is an invalid cursor: it must be the `next` of an earlier page, or omitted; it is "nonsense".\n',
    )
    expect(schema.stderr).toMatch(/^ackord: --schema must be 'main': /)
    expect([after.code, schema.code]).toEqual([2, 2])
  })
})

describe('durations', () => {
  it.each([
    [['--lease', '5'], '--lease is 5 ms; it must be longer than --publish-timeout (10 s by default).'],
    [['--lease', '10500', '--publish-timeout', '11s'], '--lease is 10 s 500 ms; it must be longer than --publish-timeout (11 s).'],
    [['--publish-timeout', '2m'], '--publish-timeout is 2 min; it must be shorter than --lease (30 s by default).'],
  ])('are compared with their units: relay %j', async (args, expected) => {
    const { stderr } = await ackord(['relay', ...args])
    expect(stderr).toBe(`ackord: ${expected}\n  A number without a unit is milliseconds: write 30s for 30 seconds.\n`)
  })

  it('are explained in the help of each command that has one, and in its errors', async () => {
    const { stdout } = await ackord(['relay', '--help'])
    expect(stdout).toContain('Durations are written as 500ms, 30s, 5m, 24h or 7d; a number without a unit is milliseconds.')
    expect((await ackord(['status', '--help'])).stdout).not.toContain('500ms')
    const { stderr } = await ackord(['cleanup', '--inbox-window', '7 days'])
    expect(stderr).toContain('a number without a unit is milliseconds')
  })
})
