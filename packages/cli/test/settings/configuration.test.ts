import { readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ackord, emptyDirectory } from '../support/ackord.ts'

/** A directory with these files. */
function directoryWith(files: Readonly<Record<string, string>>): string {
  const directory = emptyDirectory()
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text)
  return directory
}

/** The SQLite file that the command looked for. */
async function fileLookedFor(args: readonly string[], options: { cwd: string; env?: Record<string, string> }): Promise<string | undefined> {
  const { code, stderr } = await ackord(['status', ...args], options)
  expect(code).toBe(3)
  return /([a-z]+)\.db/.exec(stderr)?.[1]
}

describe('the source of an option', () => {
  it('is a flag before the environment, and the environment before the file', async () => {
    const cwd = directoryWith({ 'ackord.config.json': '{ "store": "sqlite:file.db" }' })
    const env = { ACKORD_STORE: 'sqlite:environment.db' }
    expect(await fileLookedFor([], { cwd })).toBe('file')
    expect(await fileLookedFor([], { cwd, env })).toBe('environment')
    expect(await fileLookedFor(['--store', 'sqlite:flag.db'], { cwd, env })).toBe('flag')
  })

  it.each([
    [
      'ackord.config.ts',
      "interface Config { store: string }\nconst config: Config = { store: 'sqlite:typescript.db' }\nexport default config",
      'typescript',
    ],
    ['ackord.config.js', "export default { store: 'sqlite:javascript.db' }", 'javascript'],
    ['ackord.config.mjs', "export default { store: 'sqlite:module.db' }", 'module'],
  ])('can be %s', async (name, text, expected) => {
    expect(await fileLookedFor([], { cwd: directoryWith({ [name]: text, 'package.json': '{"type":"module"}' }) })).toBe(expected)
  })

  it('can be the file that --config names', async () => {
    const cwd = directoryWith({ 'other.json': '{ "store": "sqlite:other.db" }', 'ackord.config.json': '{ "store": "sqlite:usual.db" }' })
    expect(await fileLookedFor(['--config', 'other.json'], { cwd })).toBe('other')
  })

  it('sets the store and broker of a relay by the same names', async () => {
    const cwd = directoryWith({
      'ackord.config.json': '{ "store": "sqlite:file.db", "broker": "amqp://127.0.0.1:1", "map": { "a": "b" }, "listen": false }',
    })
    const { code, stderr } = await ackord(['relay'], { cwd })
    expect(code).toBe(3)
    expect(stderr).toContain('file.db')
  })
})

describe('an invalid configuration', () => {
  it.each([
    [
      'an unknown key',
      { 'ackord.config.json': '{ "stroe": "sqlite:a.db" }' },
      /has the key 'stroe', which is not an option\.\n {2}Known keys: .*store/,
    ],
    [
      'a value that the flag would reject',
      { 'ackord.config.json': '{ "store": "sqlite:a.db", "tag": [""] }' },
      /'tag' in ackord.config.json is invalid/,
    ],
    ['a value that is not an object', { 'ackord.config.json': '[1]' }, /does not export an object/],
    ['two files', { 'ackord.config.json': '{}', 'ackord.config.mjs': 'export default {}' }, /more than one configuration file/],
  ])('%s is rejected with exit code 2', async (_, files, expected) => {
    const { code, stderr } = await ackord(['status'], { cwd: directoryWith(files) })
    expect(stderr).toMatch(expected)
    expect(code).toBe(2)
  })

  it('rejects an environment variable that the flag would reject', async () => {
    const { code, stderr } = await ackord(['cleanup', '--store', 'sqlite:a.db'], { env: { ACKORD_INBOX_WINDOW: 'long' } })
    expect(stderr).toContain('ACKORD_INBOX_WINDOW is invalid. Write it as 500ms')
    expect(code).toBe(2)
  })

  it('rejects a named file that does not exist', async () => {
    const { code, stderr } = await ackord(['status', '--config', 'none.json'])
    expect(stderr).toMatch(/The configuration file .*none\.json does not exist/)
    expect(code).toBe(2)
  })
})

describe('the secrets of a configuration file', () => {
  const secret = 'pa55-w0rd-7f3c'

  it.each([
    ['ackord.config.json', `{ "store": "postgres://user:${secret}@127.0.0.1:1/db" "oops" }`],
    ['ackord.config.json', `{ "store": "postgres://user:${secret}@127.0.0.1:1/db", `],
    ['ackord.config.ts', `export default { store: 'postgres://user:${secret}@127.0.0.1:1/db' 'oops' }`],
    ['ackord.config.mjs', `export default { store: 'postgres://user:${secret}@127.0.0.1:1/db' 'oops' }`],
    ['ackord.config.ts', `throw new Error('postgres://user:${secret}@127.0.0.1:1/db')`],
    ['ackord.config.ts', `export default { store: 'postgres://user:${secret}@127.0.0.1:1/db' }`],
  ])('of %s are not printed, whatever is wrong with it', async (name, text) => {
    const { code, stdout, stderr } = await ackord(['status'], { cwd: directoryWith({ [name]: text }) })
    expect(code).toBe(text.includes('oops') || text.includes('throw') || text.endsWith(', ') ? 2 : 3)
    expect(stderr).not.toBe('')
    expect(stdout + stderr).not.toContain(secret)
  })

  it('are not written to a cache on disk', async () => {
    const before = new Set(readdirSync(tmpdir()))
    const cwd = directoryWith({ 'ackord.config.ts': `export default { store: 'sqlite:${secret}.db' as string }` })
    expect((await ackord(['status'], { cwd })).code).toBe(3)
    expect(readdirSync(tmpdir()).filter((name) => !before.has(name) && name.includes('jiti'))).toEqual([])
  })
})
