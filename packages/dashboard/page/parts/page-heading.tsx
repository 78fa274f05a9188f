import type { ComponentChildren, VNode } from 'preact'

export function PageHeading({ title, children }: { readonly title: ComponentChildren; readonly children?: ComponentChildren }): VNode {
  return (
    <header class="page-heading">
      <h1 tabIndex={-1}>{title}</h1>
      {children && <div class="row">{children}</div>}
    </header>
  )
}
