"""What a record is: columns, feature maps, labels and intake; a row in, bounded features out."""
