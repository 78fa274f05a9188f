import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { AskQuestions } from '../../src/command/answers.ts'
import type { PackageManager } from '../../src/command/package-manager.ts'
import { run } from '../../src/command/run.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'create-ackord-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

interface RunOptions {
  readonly userAgent?: string
  readonly askQuestions?: AskQuestions
  /** What the installation reports. Default: that it succeeded. */
  readonly installs?: boolean
}

async function create(args: string, { userAgent, askQuestions, installs = true }: RunOptions = {}) {
  let output = ''
  let errors = ''
  const installed: [PackageManager, string][] = []
  const code = await run({
    args: args === '' ? [] : args.split(' '),
    workingDirectory: folder,
    userAgent,
    askQuestions,
    async install(manager, directory) {
      installed.push([manager, directory])
      return installs
    },
    print(text) {
      output += text
    },
    printError(text) {
      errors += text
    },
  })
  return { code, output, errors, installed }
}

const flags = '--store sqlite --broker http --framework none'

describe('create-ackord', () => {
  it('writes a project, installs it, and says what to type next', async () => {
    const { code, output, errors, installed } = await create(`shop ${flags}`, { userAgent: 'pnpm/10.2.0 npm/? node/v22.14.0 linux x64' })
    expect({ code, errors }).toEqual({ code: 0, errors: '' })
    expect(installed).toEqual([['pnpm', join(folder, 'shop')]])
    expect(JSON.parse(readFileSync(join(folder, 'shop/package.json'), 'utf8'))).toMatchObject({ name: 'shop', type: 'module' })
    expect(output).toContain('  cd shop\n  pnpm test\n  pnpm start\n  pnpm send ')
  })

  it('leaves the installation to the user with --no-install, and names the servers to start', async () => {
    const { output, installed } = await create('shop --store postgres --broker nats --framework none --no-install')
    expect(installed).toEqual([])
    expect(output).toContain('  cd shop\n  npm install\n  docker compose up --detach --wait\n  npm test\n  npm start\n  npm run send ')
  })

  it('fails if the installation fails, and keeps the project', async () => {
    const { code, errors } = await create(`shop ${flags}`, { installs: false })
    expect(code).toBe(1)
    expect(errors).toContain("'npm install' failed")
    expect(existsSync(join(folder, 'shop/src/main.ts'))).toBe(true)
  })

  it('asks nothing without a terminal: it names the flags that are missing', async () => {
    const { code, errors } = await create('--broker nats')
    expect(code).toBe(2)
    expect(errors).toContain('these are missing: directory, --store, --framework. Give them, or --yes for the defaults')
    expect(readdirSync(folder)).toEqual([])
  })

  it('takes the defaults with --yes, for everything that no flag says', async () => {
    expect((await create('--yes --store redis --client ioredis')).code).toBe(0)
    const { dependencies } = JSON.parse(readFileSync(join(folder, 'my-service/package.json'), 'utf8'))
    expect(Object.keys(dependencies)).toEqual(['@ackord/core', '@ackord/rabbitmq', '@ackord/redis', 'amqplib', 'ioredis', 'zod'])
  })

  it('asks on a terminal, and not with --yes', async () => {
    const asked: (string | undefined)[] = []
    const askQuestions: AskQuestions = async ({ store }) => {
      asked.push(store)
      return { directory: 'asked', name: 'asked', choices: { store: 'sqlite', client: 'sqlite', broker: 'http', framework: 'hono' } }
    }
    await create('--store sqlite', { askQuestions })
    await create('other --yes', { askQuestions })
    expect(asked).toEqual(['sqlite'])
    expect(readdirSync(folder).sort()).toEqual(['asked', 'other'])
  })

  it('refuses a directory with files before it asks, unless --force is given', async () => {
    mkdirSync(join(folder, 'shop/.git'), { recursive: true })
    expect((await create(`shop ${flags}`)).code).toBe(0)
    writeFileSync(join(folder, 'shop/own.txt'), 'mine')
    const askQuestions = () => Promise.reject(new Error('It asked.'))
    const { code, errors } = await create('shop', { askQuestions })
    expect(code).toBe(2)
    expect(errors).toMatch(/The directory '.*shop' is not empty: it has .* and \d+ more\. Choose another one, or --force/)
    expect((await create(`shop ${flags} --force`)).code).toBe(0)
    expect(readFileSync(join(folder, 'shop/own.txt'), 'utf8')).toBe('mine')
  })

  it('refuses a file in place of the directory', async () => {
    writeFileSync(join(folder, 'shop'), '')
    expect((await create(`shop ${flags}`)).errors).toContain('is a file, not a directory')
  })

  it('writes into the working directory as `.`', async () => {
    const { code, output } = await create(`. ${flags} --name shop`)
    expect(code).toBe(0)
    expect(output).not.toContain('cd ')
    expect(existsSync(join(folder, 'src/main.ts'))).toBe(true)
  })

  it.each([
    [
      `Shop ${flags}`,
      "'Shop' is not a valid name for a package: use lower-case letters, digits, '-', '.' and '_', beginning with a letter or a digit. For example: --name shop",
    ],
    ['shop --store oracle', "--store must be postgres, mysql, sqlite or redis, not 'oracle'."],
    ['shop --broker sqs', "--broker must be rabbitmq, nats, kafka, redis-streams or http, not 'sqs'."],
    ['shop --framework nest', "--framework must be none, fastify, hono or nestjs, not 'nest'."],
    ['shop --store redis --client drizzle', '--client drizzle does not work with --store redis. Use redis or ioredis.'],
    ['shop --client drizzle', '--client needs --store'],
    ['shop other', "Only one directory can be given; there are 'shop' and 'other'."],
    ['shop --databse x', "Unknown option '--databse'. --help lists the flags."],
    ['shop --store', "Option '--store <value>' argument missing. --help lists the flags."],
  ])('explains what is wrong with: %s', async (args, text) => {
    const { code, errors } = await create(args)
    expect(code).toBe(2)
    expect(errors).toContain(`create-ackord: ${text}`)
    expect(readdirSync(folder)).toEqual([])
  })

  it('prints its help and its version', async () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
    expect((await create('--version')).output).toBe(`${version}\n`)
    const { code, output } = await create('--help')
    expect(code).toBe(0)
    for (const text of ['--store', 'redis-streams', 'kysely', '--no-install', 'Examples']) expect(output).toContain(text)
  })
})
