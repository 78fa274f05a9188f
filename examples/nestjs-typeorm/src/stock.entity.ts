import { Column, Entity, PrimaryColumn } from 'typeorm'

@Entity('stock')
export class Stock {
  @PrimaryColumn('varchar', { length: 100 })
  product!: string

  @Column('int')
  available!: number
}
