import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { ackord, emptyDirectory } from '../support/ackord.ts'
import { bundleMain } from '../support/bundle-main.ts'
import { openTestStore } from '../support/services.ts'

beforeAll(bundleMain)

describe('invalid arguments', () => {
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['statsu'], /unknown command 'statsu'\.\n {2}Did you mean status\?/],
    [['status', '--stoer', 'x'], /unknown option '--stoer'\.\n {2}Did you mean --store\?/],
    [
      ['dead-letters', 'list', '--store', 'x'],
      /unknown option '--store'\.\n {2}This command works on a broker, not on a store: use --broker <url>\. See ackord dead-letters list --help$/m,
    ],
    [['dead-letters', '--store=x'], /not on a store: use --broker <url>\. See ackord dead-letters --help$/m],
    [['relay', '--store', 'x'], /unknown option '--store'\.\n {2}This command takes the store as --from <url>\. See ackord relay --help$/m],
    [['relay', '--broker', 'x'], /This command takes the broker as --to <url>\./],
    [['inbox', 'show', '1', '--broker=x'], /works on a store, not on a broker: use --store <url>\. See ackord inbox show --help$/m],
    [['status', '--from', 'x'], /This command takes the store as --store <url>\./],
    [['inbox', 'show'], /missing required argument 'id'\.\n {2}Try: ackord inbox show --help$/m],
    [['inbox', 'shwo'], /unknown command 'shwo'\.\n {2}Did you mean show\? See ackord inbox --help$/m],
    [['status'], /--store is missing\.\n {2}Pass it, set ACKORD_STORE/],
    [
      ['status', '--store', 'postgre://host/db'],
      /the scheme 'postgre:', which is not a supported store\.\n {2}Expected one of: postgres:\/\//,
    ],
    [['status', '--store', 'postgres://host:54321x/db'], /--store has an invalid host or port/],
    [['status', '--store', 'orders.db'], /--store is not a valid URL/],
    [['status', '--store', 'sqlite:'], /has no path/],
    [['status', '--store', 'sqlite:a.db', '--tag', 'x'], /--stream and --tag are for Redis/],
    [['status', '--store', 'sqlite:a.db', '--outbox', 'lua'], /--outbox and --shards are for Redis/],
    [['status', '--store', 'redis://host', '--outbox', 'list'], /It must be one of: stream, lua/],
    [['status', '--store', 'redis://host', '--shards', '2'], /--shards is for the Lua outbox\.\n {2}Add --outbox lua/],
    [['status', '--store', 'redis://host', '--outbox', 'lua', '--tag', 'a,b'], /a Lua outbox has one\.\n {2}Use --shards/],
    [['status', '--store', 'redis+cluster://host', '--prefix', 'a_'], /--schema and --prefix are for SQL databases/],
    [['status', '--store', 'redis:'], /has no host\.\n {2}Use redis:\/\/host:6379/],
    [['status', '--store', 'redis+cluster://'], /has no host\.\n {2}Use redis\+cluster:\/\/host:6379/],
    [['status', '--store', 'redis://one:6379,two:6379'], /has several hosts\.\n {2}Use one host, or redis\+cluster:\/\//],
    [['status', '--store', 'redis://host/orders'], /must be a number; it is 'orders'/],
    [['status', '--store', 'redis+cluster://host/1'], /A Redis Cluster has no numbered databases/],
    [['demo', '--outbox', 'lua'], /--outbox is for Redis/],
    [['bench', '--store', 'sqlite:', '--outbox', 'lua'], /--outbox is for Redis/],
    [['relay', '--from', 'sqlite:a.db', '--map', 'orders'], /Write it as name=value/],
    [['relay', '--from', 'sqlite:a.db', '--lease', 'soon'], /Write it as 500ms, 30s/],
    [['relay', '--from', 'sqlite:a.db', '--port', '70000'], /a whole number from 0 to 65535/],
    [['list', '--store', 'sqlite:a.db', '--state', 'lost'], /It must be one of: ready, waiting/],
    [['list', '--store', 'sqlite:a.db', '--message-id', ''], /It must be a non-empty id/],
    [['list', '--store', 'sqlite:a.db', '--watch', 'often'], /Write it as 500ms, 30s/],
    [['status', '--store', 'sqlite:a.db', '--watch', '5'], /It must be from 100ms to 24h; a number without a unit is milliseconds/],
    [['status', '--store', 'sqlite:a.db', '--watch', '2d'], /It must be from 100ms to 24h/],
    [['status', '--watch'], /--store is missing\.\n {2}Pass it, set ACKORD_STORE/],
    [['show', '--store', 'sqlite:a.db'], /No record is selected\.\n {2}Pass the id of a record, or --message-id/],
    [['show', '7', '--message-id', 'm', '--store', 'sqlite:a.db'], /either ids or --message-id/],
    [['park', '--reason', 'x', '--store', 'sqlite:a.db'], /No record is selected/],
    [['park', '7', '--message-id', 'm', '--reason', 'x', '--store', 'sqlite:a.db'], /either ids or --message-id/],
    [['rearm', '7', '--message-id', 'm', '--store', 'sqlite:a.db'], /either ids or a filter/],
    [['discard', '--message-id', 'm', '--reason', 'x', '--store', 'sqlite:a.db'], /Check with --dry-run first, then add --yes/],
    [['rearm', '--store', 'sqlite:a.db'], /No records are selected/],
    [['rearm', '7', '--all', '--store', 'sqlite:a.db'], /either ids or a filter/],
    [['rearm', '7', '--set-attribute', 'id=8', '--store', 'sqlite:a.db'], /cannot set 'id'/],
    [['discard', '7', '--store', 'sqlite:a.db'], /--reason is missing/],
    [['discard', '--all', '--reason', 'x', '--store', 'sqlite:a.db'], /Check with --dry-run first, then add --yes/],
    [['cancel', '7', '--store', 'sqlite:a.db'], /--reason is missing/],
    [['cancel', '--all', '--reason', 'x', '--store', 'sqlite:a.db'], /Check with --dry-run first, then add --yes/],
    [['cancel', '--store', 'sqlite:a.db'], /No records are selected/],
    [['replay', '--store', 'sqlite:a.db'], /No records are selected\.\n {2}Pass a filter, such as --from/],
    [
      ['replay', '--store', 'sqlite:a.db', '--position', 'W10'],
      /No records are selected\.\n {2}Pass the filter of the replay that has reported/,
    ],
    [['replay', '--store', 'sqlite:a.db', '--all', '--type', 'a'], /either a filter or --all/],
    [['replay', '--store', 'sqlite:a.db', '--from', '1h', '--until', '2h'], /--until is before --from/],
    [['replay', '--store', 'sqlite:a.db', '--from', 'soon'], /Write it as 2026-01-31T12:00:00Z/],
    [['demo', '--orders', '0'], /a whole number from 1/],
    [['demo', '--broker', 'kafak://host'], /the scheme 'kafak:', which is not a supported broker/],
    [['doctor'], /--store and --broker are both missing/],
    [['bench'], /--store is missing/],
  ]

  it.each(cases)('%j is rejected in one line, with a hint, and exit code 2', async (args, expected) => {
    const { code, stdout, stderr } = await ackord(args)
    expect(stderr).toMatch(expected)
    expect(stderr.trimEnd().split('\n').length).toBeLessThanOrEqual(2)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  })

  it.each([
    ['a command', ['postgres://user:s3cr/et@host/db']],
    ['an option', ['status', '--stor=postgres://user:s3cr/et@host/db']],
    ['an option with a token', ['relay', '--too=nats://s3cr/et@host']],
    ['the value of another option', ['list', '--limit', 'postgres://user:s3cr/et@host/db']],
    ['the secret in a query', ['status', '--stor=postgres://host/db?password=s3cr%2fet+et']],
  ])('a URL that is parsed as %s is printed without its password', async (_, args) => {
    for (const more of [[], ['--json']]) {
      const { code, stdout, stderr } = await ackord([...args, ...more])
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toContain('***')
      expect(stderr).not.toMatch(/s3cr|et@|et\+et/)
    }
  })

  it('reports errors as JSON with --json', async () => {
    const { code, stdout, stderr } = await ackord(['status', '--json', '--store', 'orders.db'])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(JSON.parse(stderr)).toMatchObject({
      error: '--store is not a valid URL.',
      exit_code: 2,
      hint: expect.stringContaining('postgres://'),
    })
  })

  it('does not create an SQLite file for a path with a typo', async () => {
    const cwd = emptyDirectory()
    const first = await ackord(['status', '--store', 'sqlite:oders.db'], { cwd })
    const second = await ackord(['status', '--store', 'sqlite:oders.db'], { cwd })
    expect([first.code, second.code]).toEqual([3, 3])
    expect(second.stderr).toContain('does not exist')
  })

  it('rejects a file that is not a database', async () => {
    const cwd = emptyDirectory()
    writeFileSync(join(cwd, 'notes.db'), 'These are notes, and no database at all. '.repeat(40))
    const { code, stderr } = await ackord(['status', '--store', 'sqlite:notes.db'], { cwd })
    expect(code).toBe(4)
    expect(stderr).toContain('not an SQLite database')
  })
})

describe('help', () => {
  it.each([['--help'], ['relay', '--help'], ['help', 'migrate']])('%s %s is printed to stdout, and is no failure', async (...args) => {
    const { code, stdout, stderr } = await ackord(args)
    expect(stdout).toContain('Usage: ackord')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })
})

describe('a schema', () => {
  it('that is missing causes exit code 5, with a hint that creates it', async () => {
    const cwd = emptyDirectory()
    writeFileSync(join(cwd, 'orders.db'), '')
    const before = await ackord(['list', '--store', 'sqlite:orders.db'], { cwd })
    expect(before.code).toBe(5)
    expect(before.stderr).toContain('ackord migrate up')
    expect((await ackord(['migrate', 'validate', '--store', 'sqlite:orders.db'], { cwd })).code).toBe(5)
    expect((await ackord(['migrate', 'up', '--store', 'sqlite:orders.db'], { cwd })).code).toBe(0)
    expect((await ackord(['migrate', 'validate', '--store', 'sqlite:orders.db'], { cwd })).code).toBe(0)
    expect((await ackord(['list', '--store', 'sqlite:orders.db'], { cwd })).code).toBe(0)
  })

  it.each([
    ['newer', 99, /npm install ackord@latest/],
    ['older', 1, /ackord migrate up/],
  ])('that is %s causes exit code 5', async (_, version, hint) => {
    await using world = await openTestStore()
    if (world.store.kind === 'redis') throw new Error('It is SQLite.')
    const oldestReader = version === 1 ? 1 : version
    await world.store.define(
      `UPDATE ${world.store.table('meta')} SET version = ${version}, oldest_reader = ${oldestReader} WHERE name = 'schema'`,
    )
    for (const command of [
      ['migrate', 'validate', ...world.args],
      ['relay', '--from', ...world.args.slice(1), '--to', 'amqp://127.0.0.1:1'],
    ]) {
      const { code, stderr } = await ackord(command)
      expect(stderr).toMatch(hint)
      expect(code).toBe(5)
    }
  })
})
