import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { root, typescriptBlocks } from './docs-blocks.ts'

/** The time limit for a program that hangs. */
const limit = 45_000

/** The programs of a document: `service.ts`, `send.ts`. */
export interface Programs {
  /** Replaces `shop` in the programs, so that their names are unique. */
  readonly word: string
  /** Runs a program to its end; resolves to its output. */
  run(title: string, environment: NodeJS.ProcessEnv): Promise<string>
  /** Starts a program and waits until it prints the text. */
  start(title: string, environment: NodeJS.ProcessEnv, text: string): Promise<RunningProgram>
}

interface RunningProgram {
  /** Sends SIGTERM; resolves to the output if the program exited successfully. */
  stop(): Promise<string>
}

const tsc = (...args: readonly string[]) =>
  spawnSync(process.execPath, [`${root}node_modules/typescript/bin/tsc`, ...args], { cwd: root, encoding: 'utf8' }).stdout

const folder = `${root}.cache/docs-run`

/** Compiles the programs as a reader would: against the built packages. Keyed by the paths of the documents. */
export function compilePrograms(documents: readonly string[]): ReadonlyMap<string, Programs> {
  removePrograms()
  const compiled = new Map(documents.map((document) => [document, writePrograms(document)]))
  const compilerOptions = { composite: false, declaration: false, declarationMap: false, isolatedDeclarations: false, outDir: 'out' }
  writeFileSync(`${folder}/tsconfig.json`, JSON.stringify({ extends: '../../tsconfig.base.json', include: ['.'], compilerOptions }))
  writeFileSync(`${folder}/package.json`, JSON.stringify({ type: 'module' }))
  const problems = tsc('-b') + tsc('-p', folder)
  if (problems !== '') throw new Error(problems)
  return compiled
}

export function removePrograms(): void {
  rmSync(folder, { recursive: true, force: true })
}

function writePrograms(document: string): Programs {
  const word = `ackorddocs${randomBytes(4).toString('hex')}`
  mkdirSync(`${folder}/${word}`, { recursive: true })
  for (const { title, code } of typescriptBlocks(document)) {
    if (title !== undefined) writeFileSync(`${folder}/${word}/${title}`, code.replaceAll(/\bshop\b/g, word))
  }
  const launch = (title: string, environment: NodeJS.ProcessEnv) =>
    listen(spawn(process.execPath, [`${folder}/out/${word}/${title.replace(/ts$/, 'js')}`], { env: { ...process.env, ...environment } }))
  return {
    word,
    async run(title, environment) {
      return await launch(title, environment).ended()
    },
    async start(title, environment, text) {
      const program = launch(title, environment)
      await program.says(text)
      return {
        stop() {
          program.child.kill('SIGTERM')
          return program.ended()
        },
      }
    },
  }
}

interface Listened {
  readonly child: ChildProcess
  says(text: string): Promise<void>
  ended(): Promise<string>
}

function listen(child: ChildProcess): Listened {
  let printed = ''
  const closed = once(child, 'close')
  const timer = setTimeout(() => child.kill('SIGKILL'), limit)
  const hear = (chunk: Buffer) => {
    printed += chunk.toString()
    child.emit('heard')
  }
  child.stdout?.on('data', hear)
  child.stderr?.on('data', hear)
  return {
    child,
    async says(text) {
      let over = false
      const end = closed.then(() => {
        over = true
      })
      while (!printed.includes(text)) {
        if (over) throw new Error(`The program ended before it printed '${text}':\n${printed}`)
        await Promise.race([once(child, 'heard'), end])
      }
    },
    async ended() {
      const [code, signal] = await closed
      clearTimeout(timer)
      if (code !== 0) throw new Error(`The program ended with ${code ?? signal}:\n${printed}`)
      return printed
    },
  }
}
