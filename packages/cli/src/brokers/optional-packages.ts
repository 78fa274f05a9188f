import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { usageError } from '../output/errors.ts'
import { errorText } from '../output/output.ts'

/** A package that only some brokers need, so that users install it themselves. */
export type OptionalPackage<Module> = readonly [name: string, version: string, load: () => Promise<Module>]

type Modules<Packages extends readonly OptionalPackage<unknown>[]> = {
  readonly [Index in keyof Packages]: Packages[Index] extends OptionalPackage<infer Module> ? Module : never
}

/**
 * Loads packages from the installation of this command, or else from the project in the current directory: with an npx or global installation they are not
 * beside this one. `option` is the one to name in the error if they are not installed.
 */
export async function loadPackages<const Packages extends readonly OptionalPackage<unknown>[]>(
  option: string,
  packages: Packages,
): Promise<Modules<Packages>> {
  const loaded = await Promise.all(packages.map((each) => loadOne(option, each, packages)))
  const missing = packages.filter((_, index) => loaded[index] === undefined).map(([name]) => name)
  if (missing.length > 0)
    throw usageError(`${option} requires packages that are not installed: ${missing.join(', ')}.`, installHint(packages))
  // In the order of the packages.
  return loaded as Modules<Packages>
}

/** `undefined` if it is not installed. */
async function loadOne(
  option: string,
  [name, , load]: OptionalPackage<unknown>,
  all: readonly OptionalPackage<unknown>[],
): Promise<unknown> {
  try {
    return await load().catch(async (error: unknown) => {
      if (!isNotFound(error, name)) throw error
      const path = pathInProject(name)
      return path === undefined ? undefined : await import(pathToFileURL(path).href)
    })
  } catch (error) {
    throw usageError(`${option} requires the package ${name}, which cannot be loaded: ${errorText(error)}`, installHint(all))
  }
}

function isNotFound(error: unknown, name: string): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND' && error.message.includes(`'${name}'`)
}

function pathInProject(name: string): string | undefined {
  try {
    return createRequire(join(process.cwd(), 'any.js')).resolve(name)
  } catch {
    return undefined
  }
}

function installHint(packages: readonly OptionalPackage<unknown>[]): string {
  return `Install: npm install ${packages.map(([name, version]) => `${name}@${version}`).join(' ')}`
}
