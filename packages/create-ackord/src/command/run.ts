import { resolve } from 'node:path'
import { InvalidChoiceError } from '../choices/invalid-choice-error.ts'
import { generateProject } from '../project/generate-project.ts'
import { version } from '../version.ts'
import { type Answers, type AskQuestions, answersFromFlags } from './answers.ts'
import { CancelledError } from './cancelled-error.ts'
import { type Flags, parseFlags } from './flags.ts'
import { help } from './help.ts'
import { nextSteps } from './next-steps.ts'
import { detectPackageManager, type PackageManager } from './package-manager.ts'
import { checkDirectory, writeProject } from './write-project.ts'

/** The parts of the process that the command uses. */
export interface CommandContext {
  readonly args: readonly string[]
  /** Relative directories are below it. */
  readonly workingDirectory: string
  readonly userAgent: string | undefined
  /** Default: there is no terminal, and nothing is asked. */
  readonly askQuestions?: AskQuestions | undefined
  /** Resolves to whether it succeeded. */
  install(manager: PackageManager, directory: string): Promise<boolean>
  print(text: string): void
  printError(text: string): void
}

/** Runs the command; resolves to its exit code. */
export async function run(context: CommandContext): Promise<number> {
  const { args, print, printError } = context
  try {
    const flags = parseFlags(args)
    if (flags.help || flags.version) {
      print(flags.help ? help : `${version}\n`)
      return 0
    }
    return await create(flags, context)
  } catch (error) {
    if (!(error instanceof InvalidChoiceError || error instanceof CancelledError)) throw error
    printError(`create-ackord: ${error.message}\n`)
    return error instanceof CancelledError ? 130 : 2
  }
}

async function create(flags: Flags, context: CommandContext): Promise<number> {
  const { workingDirectory, userAgent, print, printError } = context
  const inside = (directory: string) => resolve(workingDirectory, directory)
  // Before the questions, so that no answers are in vain.
  if (flags.directory !== undefined) checkDirectory(inside(flags.directory), flags)
  const { directory, name, choices } = await answer({ ...flags, directory: flags.directory && inside(flags.directory) }, context)
  const folder = inside(directory)
  checkDirectory(folder, flags)
  const files = generateProject(name, choices)
  writeProject(folder, files)
  print(`Created ${name}: ${files.size} files in ${folder}\n`)
  const manager = detectPackageManager(userAgent)
  const installed = flags.install && (await context.install(manager, folder))
  if (flags.install && !installed)
    printError(`create-ackord: '${manager} install' failed. The project is complete; install its dependencies again.\n`)
  print(nextSteps({ manager, installed, folder, workingDirectory, hasServers: files.has('compose.yaml') }))
  return flags.install && !installed ? 1 : 0
}

function answer(flags: Flags, { askQuestions }: CommandContext): Answers | Promise<Answers> {
  return askQuestions === undefined || flags.yes ? answersFromFlags(flags) : askQuestions(flags)
}
